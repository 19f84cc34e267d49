package simulation

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/why"
)

// whySeeds are the runs whose causes are followed, from seed whyFirst on.
const (
	whyFirst = 100
	whySeeds = 24
)

// TestCausesAreThoseOfTheWorld follows every decision of some runs to a fact from outside, and holds what is claimed of
// the ends of containers to what happened in the world.
func TestCausesAreThoseOfTheWorld(t *testing.T) {
	seeds := make([]uint64, whySeeds)
	for i := range seeds {
		seeds[i] = whyFirst + uint64(i)
	}
	var mu sync.Mutex
	var total causes
	kinds := map[why.EndKind]int{}
	each(seeds, func(seed uint64) {
		r := Run(PlanOf(seed), Options{})
		c := causes{kinds: map[why.EndKind]int{}}
		err := c.check(t, r)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		total.decisions, total.longest = total.decisions+c.decisions, max(total.longest, c.longest)
		total.byThemselves, total.stopped = total.byThemselves+c.byThemselves, total.stopped+c.stopped
		for kind, n := range c.kinds {
			kinds[kind] += n
		}
	})
	t.Logf("%d decisions, the longest chain has %d links; %d containers ended by themselves, %d were stopped; ends: %v",
		total.decisions, total.longest, total.byThemselves, total.stopped, kinds)
	if total.decisions < 10_000 || total.byThemselves < 100 || total.stopped < 100 {
		t.Error("too few to show anything")
	}
}

// causes counts what was followed in one run.
type causes struct {
	decisions, longest, byThemselves, stopped int
	kinds                                     map[why.EndKind]int
}

func (c *causes) check(t *testing.T, r *Result) error {
	t.Helper()
	tracer := why.NewTracer(t.Context(), r.History(), math.MaxInt)
	checked := map[string]bool{}
	for _, rec := range r.sim.journal.stored {
		for i := range rec.GetStep().GetDecisions() {
			chain, err := tracer.Chain(rec.GetSeq(), i)
			if err != nil {
				return err
			}
			c.decisions, c.longest = c.decisions+1, max(c.longest, len(chain.Events))
			if c.kinds[chain.End.Kind]++; !chain.End.Kind.Outside() {
				return fmt.Errorf("record %d: the chain of decision %d ends with %s: %s", rec.GetSeq(), i, chain.End.Kind,
					chain.End.Text)
			}
		}
		for _, shown := range rec.GetFact().GetPodObserved().GetContainers() {
			if checked[shown.GetId()] || shown.GetStartedAt() == nil ||
				shown.GetState() != journaletv1.ContainerState_CONTAINER_STATE_EXITED {
				continue
			}
			checked[shown.GetId()] = true
			if err := c.exit(tracer, r, rec, shown); err != nil {
				return err
			}
		}
	}
	return nil
}

// exit holds the cause of an exit to the world. A stop may have been dispatched and not have reached the container: the
// agent cannot know that. What was requested in records that are lost is not known either.
func (c *causes) exit(tracer *why.Tracer, r *Result, rec *journaletv1.Record, shown *journaletv1.ContainerObservation) error {
	x := r.sim.world.ends[shown.GetId()]
	if x == nil {
		return fmt.Errorf("record %d shows the exit of %s, which has not ended", rec.GetSeq(), shown.GetId())
	}
	call, err := tracer.EndedBy(rec.GetSeq(), shown.GetId())
	switch {
	case err != nil:
		return err
	case call == nil:
		c.byThemselves++
		if x.stoppedBy != "" && x.stoppedAt > r.sim.judge.lostRecordsAt {
			return fmt.Errorf("record %d: %s is said to have ended by itself, and %s stopped it", rec.GetSeq(), x.id, x.stoppedBy)
		}
		return nil
	}
	c.stopped++
	if x.stoppedBy == "" && !dispatchedBefore(r, call, shown) {
		return fmt.Errorf("record %d: %s is said to have been ended by #%d, and ended by itself", rec.GetSeq(), x.id, call.Seq)
	}
	req := call.Body.GetCallRequested()
	named := req.GetStopContainer() != nil && x.stoppedBy == "StopContainer" || x.stoppedBy == "" ||
		strings.Contains(x.stoppedBy, "Sandbox") && req.GetStopContainer() == nil || r.sim.judge.lostRecordsAt > 0
	if !named {
		return fmt.Errorf("record %d: %s is said to have been ended by #%d (%s), and %s ended it", rec.GetSeq(), x.id, call.Seq,
			call.Name(), x.stoppedBy)
	}
	return nil
}

// dispatchedBefore reports whether a call was dispatched before a container ended, by their times.
func dispatchedBefore(r *Result, call *why.Event, shown *journaletv1.ContainerObservation) bool {
	for _, rec := range r.sim.journal.stored {
		for _, e := range messages.Events(rec) {
			if e.GetCallDispatched().GetIntentId() == call.ID {
				return !shown.GetFinishedAt().AsTime().Before(rec.GetTime().AsTime()) || r.sim.judge.clockSet > 0
			}
		}
	}
	return false
}
