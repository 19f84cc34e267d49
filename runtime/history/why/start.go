package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/describe"
	"github.com/journalet/journalet/runtime/history/start"
)

const (
	// startRecords bounds the records that are read for a pod's start, which mostly takes a few seconds.
	startRecords = 200_000
	// maxPhases bounds the phases of an answer: the longest ones are kept.
	maxPhases = 12
)

// Start is where the time of a pod's start went.
type Start struct {
	Begin    time.Time `json:"begin"`
	BeginSeq uint64    `json:"beginSeq"`
	// End is zero while the start is under way.
	End    time.Time `json:"end,omitzero"`
	EndSeq uint64    `json:"endSeq,omitempty"`
	// Outcome is ready, failed, rejected, succeeded or ended; empty while the start is under way.
	Outcome string  `json:"outcome,omitempty"`
	Phases  []Phase `json:"phases"`
	// More is the number of shorter phases that are left out.
	More int `json:"more,omitempty"`
}

// Phase is one piece of a start. Phases may overlap.
type Phase struct {
	// Kind is admission, volumes, sandbox, pull, create, start, observe, init, hook, probe, gates or back-off.
	Kind      string        `json:"kind"`
	Container string        `json:"container,omitempty"`
	Text      string        `json:"text,omitempty"`
	Begin     time.Time     `json:"begin"`
	Took      time.Duration `json:"tookNanoseconds"`
	// Waited is how much of it the call waited for a free slot.
	Waited   time.Duration `json:"waitedNanoseconds,omitempty"`
	BeginSeq uint64        `json:"beginSeq"`
	EndSeq   uint64        `json:"endSeq,omitempty"`
	Outcome  string        `json:"outcome,omitempty"`
}

// addStart adds where the time of the pod's start went. Without the records of the start it adds nothing.
func (s *subject) addStart(a *Answer) error {
	from := s.state.GetIncarnation()
	if from < s.j.first || from == 0 || s.state.GetRejected() {
		return nil
	}
	c := start.NewCollector()
	var found *start.Start
	take := func(recs []*journaletv1.Record) bool {
		for _, rec := range recs {
			for _, ended := range c.Add(rec) {
				if ended.UID == s.uid && ended.Incarnation == s.state.GetIncarnation() {
					found = ended
					return true
				}
			}
		}
		return false
	}
	for at := from; at <= s.at && at-from < startRecords; {
		to := min(s.at, at+firstStretch-1)
		recs, err := s.log.read(at, to)
		if err != nil {
			return ignoreLimit(err)
		}
		if take(recs) {
			break
		}
		at = to + 1
	}
	if found == nil {
		for _, open := range c.Open() {
			if open.UID == s.uid {
				found = open
			}
		}
	}
	if found != nil {
		a.Start = startAnswer(found, a.Time)
	}
	return nil
}

func startAnswer(st *start.Start, now time.Time) *Start {
	out := &Start{Begin: st.Begin, BeginSeq: st.BeginSeq, End: st.End, EndSeq: st.EndSeq, Outcome: string(st.Outcome)}
	for _, p := range st.Phases {
		// What took no time explains nothing.
		if p.Took(now) < st.Took(now)/100 && p.Outcome != start.Failed && p.Outcome != start.Open {
			continue
		}
		out.Phases = append(out.Phases, Phase{
			Kind: string(p.Kind), Container: p.Container, Text: phaseText(p), Begin: p.Begin, Took: p.Took(now),
			Waited: p.Waited(now), BeginSeq: p.BeginSeq, EndSeq: p.EndSeq, Outcome: string(p.Outcome),
		})
	}
	if len(out.Phases) > maxPhases {
		slices.SortStableFunc(out.Phases, func(a, b Phase) int { return cmp.Compare(b.Took, a.Took) })
		out.More = len(out.Phases) - maxPhases + st.Dropped
		out.Phases = out.Phases[:maxPhases]
		slices.SortStableFunc(out.Phases, func(a, b Phase) int { return a.Begin.Compare(b.Begin) })
	}
	return out
}

// phaseText is what is special of a phase: image and size, the probe, the attempt, why it failed.
func phaseText(p *start.Phase) string {
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	add(p.Image)
	if p.Bytes > 0 {
		add(describe.Size(p.Bytes))
	}
	if p.ProbeKind != journaletv1.ProbeKind_PROBE_KIND_UNSPECIFIED {
		add(strings.ToLower(describe.Enum(p.ProbeKind.String(), "PROBE_KIND_")))
	}
	if p.Attempt > 0 {
		add(fmt.Sprintf("attempt %d", p.Attempt))
	}
	if p.Outcome != start.Done && p.Outcome != start.Open {
		add(string(p.Outcome))
	}
	if p.Reason == "Runtime" && p.Message != "" {
		add(oneLine(p.Message))
	} else {
		add(text(p.Reason, p.Message))
	}
	return strings.Join(parts, ", ")
}
