package simulation

import (
	"fmt"
	"strings"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/describe"
)

// lastEvents is how many events of the pod concerned a failure shows.
const lastEvents = 40

// Report returns what was broken, and how to reproduce it.
func (r *Result) Report() string {
	if r.Violation == nil {
		return fmt.Sprintf("seed %d: all holds; %d records of %d runs in %s, hash %s", r.Plan.Seed, r.Records, r.Runs,
			r.Virtual, r.Hash)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s\n  %s\n  at %s, after record %d\n", r.Plan.Seed, r.Violation.Invariant,
		strings.ReplaceAll(r.Violation.Text, "\n", "\n  "), r.Violation.At, r.Violation.Record)
	fmt.Fprintf(&b, "reproduce: make sim SEED=%d%s%s\nthe plan:\n", r.Plan.Seed, r.Plan.test(), r.Plan.keep())
	for _, o := range r.Plan.Ops {
		fmt.Fprintf(&b, "  %s\n", o)
	}
	what := "the journal"
	if r.Violation.UID != "" {
		what = "pod " + r.sim.manifests.names[r.Violation.UID] + " (" + r.Violation.UID + ")"
	}
	fmt.Fprintf(&b, "the last events of %s:\n%s", what, r.Text(r.Violation.UID, lastEvents))
	return b.String()
}

// Text returns the last events of a pod, or of all for an empty UID; most below 1 means all of them.
func (r *Result) Text(uid string, most int) string {
	d := describe.New()
	var lines []string
	for _, rec := range r.sim.journal.stored {
		author := messages.RefOf(rec.GetActor())
		for i, e := range messages.Events(rec) {
			id := ""
			if rec.GetStep() != nil {
				id = messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), author, i)
			}
			text := d.Describe(id, author, e)
			if uid == "" || concerns(author, e, uid) {
				lines = append(lines,
					fmt.Sprintf("  %5d %s %s %s", rec.GetSeq(), rec.GetTime().AsTime().Format("15:04:05.000"), d.Actor(author), text))
			}
		}
	}
	if most > 0 && len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	return strings.Join(lines, "\n") + "\n"
}

// concerns reports whether an event is about a pod, or about the agent as a whole.
func concerns(author messages.Ref, e *journaletv1.Event, uid string) bool {
	if author == messages.Pod(uid) || e.GetAgentStarted() != nil {
		return true
	}
	id := e.GetCallDispatched().GetIntentId() + e.GetCallFinished().GetIntentId() + e.GetCallDropped().GetIntentId()
	if d, err := messages.ParseDecisionID(id); err == nil && d.Author == messages.Pod(uid) {
		return true
	}
	for _, about := range []string{
		e.GetPodUpdated().GetPod().GetUid(), e.GetAdmissionDecided().GetUid(), e.GetAdmissionDeferred().GetUid(),
		e.GetImagePullDecided().GetUid(), e.GetPodForgotten().GetUid(),
	} {
		if about == uid {
			return true
		}
	}
	return false
}

// test returns the TEST argument for a plan, empty for a plan of TestNothingBreaksUnderFaults.
func (p *Plan) test() string {
	switch {
	case p.config.hostile != nil:
		text := " TEST=TestOthersNoticeNoHostileTenant"
		if p.end != hostileFor(p.Seed) {
			text += " TENANT=" + p.end.String()
		}
		return text
	case p.config.attached:
		return " TEST=TestVolumesOfDriversFollowTheirPods"
	case p.config.claimed:
		return " TEST=TestClaimsArePreparedWhileTheyAreUsed"
	case p.config.refused:
		return " TEST=TestWhatIsRefusedIsLeftAlone"
	case p.config.clustered:
		return " TEST=TestNothingBreaksInACluster"
	case p.config.pressed != nil:
		return " TEST=TestNothingBreaksUnderPressure"
	case p.config.sized:
		return " TEST=TestNothingBreaksWhenPodsAreResizedAsAWhole"
	case p.config.operated:
		return " TEST=TestNothingBreaksUnderOperators"
	case p.config.managed != nil && p.config.managed.kubelet:
		return " TEST=TestNothingIsGivenTwiceInAKubeletsPlace"
	case p.config.managed != nil:
		return " TEST=TestNothingIsGivenTwice"
	}
	return ""
}

// keep returns the KEEP argument for a plan that was shrunk.
func (p *Plan) keep() string {
	whole := PlanOf(p.Seed)
	switch {
	case p.config.hostile != nil:
		whole = Hostile(p.Seed, p.end)
	case p.config.attached:
		whole = Attached(p.Seed)
	case p.config.claimed:
		whole = Claimed(p.Seed)
	case p.config.refused:
		whole = Refused(p.Seed)
	case p.config.clustered:
		whole = Clustered(p.Seed)
	case p.config.pressed != nil:
		whole = Pressed(p.Seed)
	case p.config.sized:
		whole = Sized(p.Seed)
	case p.config.operated:
		whole = Operated(p.Seed)
	case p.config.managed != nil && p.config.managed.kubelet:
		whole = InAKubeletsPlace(p.Seed)
	case p.config.managed != nil:
		whole = Exclusive(p.Seed)
	}
	if len(whole.Ops) == len(p.Ops) {
		return ""
	}
	var kept []string
	for _, o := range p.Ops {
		kept = append(kept, fmt.Sprint(o.N))
	}
	return " KEEP=" + strings.Join(kept, ",")
}
