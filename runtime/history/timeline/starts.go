package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/history/start"
)

const (
	// maxStarts bounds the starts of a pod that are given in figures.
	maxStarts = 3
	// maxPhases bounds the phases that the text of a start names.
	maxPhases = 8
)

// started adds a start of a pod: its phases as spans, and its figures. open is set for a start that has not ended.
func (b *builder) started(s *start.Start, open bool) {
	p := b.pods[s.UID]
	if p == nil {
		return
	}
	lane := p.group.lane("start", "", "start", rankStart)
	for _, ph := range s.Phases {
		x := phaseSpan(ph)
		x.Begin = b.placeOf(ph.BeginSeq, ph.Begin)
		if x.End = max(x.Begin, b.placeOf(ph.EndSeq, ph.End)); x.Open {
			x.End = 0
		}
		lane.Spans = append(lane.Spans, x)
	}
	f := Start{
		BeginSeq: s.BeginSeq, EndSeq: s.EndSeq, BeginTime: s.Begin, Took: millis(s.Took(b.lastTime)),
		Outcome: string(s.Outcome), Text: startText(s, b.lastTime),
	}
	if open {
		f.Outcome = ""
	}
	p.group.Starts = append(p.group.Starts, f)
	if n := len(p.group.Starts); n > maxStarts {
		p.group.Starts = slices.Clone(p.group.Starts[n-maxStarts:])
	}
}

func phaseSpan(ph *start.Phase) *Span {
	x := &Span{
		Label: phaseLabel(ph), Class: ClassBusy, Text: strings.TrimSpace(ph.Reason + " " + ph.Message),
		BeginSeq: ph.BeginSeq, EndSeq: ph.EndSeq, BeginTime: ph.Begin, EndTime: ph.End, Event: -1, EndEvent: -1,
		Open: ph.Outcome == start.Open,
	}
	switch ph.Outcome {
	case start.Failed:
		x.Class, x.Label = ClassFail, x.Label+" (failed)"
	case start.Withdrawn, start.ImageMissing, start.Unfinished:
		x.Class, x.Label = ClassDone, x.Label+" ("+string(ph.Outcome)+")"
	}
	switch ph.Kind {
	case start.BackOff:
		x.Class = ClassBackOff
	case start.Probe, start.Gates, start.Admission, start.Observe, start.Objects:
		if x.Class == ClassBusy {
			x.Class = ClassWait
		}
	}
	return x
}

func phaseLabel(ph *start.Phase) string {
	switch {
	case ph.Image != "":
		return string(ph.Kind) + " " + shortImage(ph.Image)
	case ph.Container != "":
		return string(ph.Kind) + " " + ph.Container
	}
	return string(ph.Kind)
}

// placeOf returns the place of a time at a record: the place of the newest kept event up to the record, plus the time
// since. It rounds last, so that dropping events does not change the place.
func (b *builder) placeOf(seq uint64, t time.Time) float64 {
	i, found := slices.BinarySearchFunc(b.events, seq, func(ev *Event, seq uint64) int {
		switch {
		case ev.Seq < seq:
			return -1
		case ev.Seq > seq:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 || t.IsZero() {
		return millis(b.clock.at)
	}
	ev := b.events[i]
	at := ev.place + t.Sub(ev.Time)
	if !found {
		at = max(at, ev.place)
	}
	return millis(min(max(at, 0), b.clock.at))
}

// startText returns where the time of a start went: the sums of its phases by what they were for, the longest first.
func startText(s *start.Start, now time.Time) string {
	sums := map[string]time.Duration{}
	var labels []string
	for _, ph := range s.Phases {
		label := phaseLabel(ph)
		if _, ok := sums[label]; !ok {
			labels = append(labels, label)
		}
		sums[label] += ph.Took(now)
	}
	labels = slices.DeleteFunc(labels, func(l string) bool { return sums[l] == 0 })
	slices.SortStableFunc(labels, func(x, y string) int { return int(sums[y] - sums[x]) })
	var parts []string
	for _, l := range labels[:min(len(labels), maxPhases)] {
		parts = append(parts, l+" "+span(sums[l]))
	}
	if more := len(labels) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}
