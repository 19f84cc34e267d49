package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/runtime/history/why"
	"github.com/journalet/journalet/test/must"
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
		total.explained += c.explained
		for kind, n := range c.kinds {
			kinds[kind] += n
		}
	})
	t.Logf("%d decisions, the longest chain has %d links; %d containers ended by themselves, %d were stopped; "+
		"%d restarts; ends: %v", total.decisions, total.longest, total.byThemselves, total.stopped, total.explained, kinds)
	if total.decisions < 10_000 || total.byThemselves < 100 || total.stopped < 100 || total.explained < 20 {
		t.Error("too few to show anything")
	}
}

// causes counts what was followed in one run.
type causes struct {
	decisions, longest, byThemselves, stopped, explained int
	kinds                                                map[why.EndKind]int
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
	return c.restarts(t, r)
}

// restarts holds what is claimed of each restart at the end of a run to the world: the instance that ended before it,
// its exit code, and whether a call stopped it.
func (c *causes) restarts(t *testing.T, r *Result) error {
	t.Helper()
	m := r.History()
	for _, o := range r.sim.world.objects {
		for _, x := range o.containers {
			if x.attempt == 0 {
				continue
			}
			q := why.Query{Pod: o.uid, Container: x.name, Restart: x.attempt, Limit: math.MaxInt}
			a, err := why.Explain(t.Context(), m, q)
			var missing *why.NotFoundError
			if errors.As(err, &missing) {
				continue // its records are lost, or it is not the newest pod of this UID
			}
			if err != nil {
				return err
			}
			if err := heldTo(r, x, a.Ended); err != nil {
				return err
			}
			c.explained++
		}
	}
	return nil
}

// heldTo compares what is claimed of the instance before x with the world.
func heldTo(r *Result, x *container, said *why.Ended) error {
	if said == nil {
		return nil // it is not in the journal
	}
	was := r.sim.world.ends[said.ContainerID]
	switch {
	case was == nil && said.Started.IsZero(), said.Vanished:
		return nil
	case was == nil || was.uid != x.uid || was.name != x.name || was.attempt >= x.attempt:
		return fmt.Errorf("%s is said to have been restarted after %s", x.id, said.ContainerID)
	case was.code != said.ExitCode || was.reason != said.Reason:
		return fmt.Errorf("%s is said to have ended with %d (%s), and ended with %d (%s)", was.id, said.ExitCode,
			said.Reason, was.code, was.reason)
	case said.StoppedBy == 0 && was.stoppedBy != "" && was.stoppedAt > r.sim.judge.lostRecordsAt:
		return fmt.Errorf("%s is said to have ended by itself, and %s stopped it", was.id, was.stoppedBy)
	}
	return nil
}

// exit holds the cause of an exit to the world. A stop may have been dispatched and not have reached the container: the
// agent cannot know that. What was requested in records that are lost is not known either.
func (c *causes) exit(
	tracer *why.Tracer, r *Result, rec *journaletv1.Record, shown *journaletv1.ContainerObservation,
) error {
	seq, x := rec.GetSeq(), r.sim.world.ends[shown.GetId()]
	if x == nil {
		return fmt.Errorf("record %d shows the exit of %s, which has not ended", seq, shown.GetId())
	}
	call, err := tracer.EndedBy(seq, shown.GetId())
	switch {
	case err != nil:
		return err
	case call == nil:
		c.byThemselves++
		if x.stoppedBy != "" && x.stoppedAt > r.sim.judge.lostRecordsAt {
			return fmt.Errorf("record %d: %s is said to have ended by itself, and %s stopped it", seq, x.id, x.stoppedBy)
		}
		return nil
	}
	c.stopped++
	if x.stoppedBy == "" && !dispatchedBefore(r, call, shown) {
		return fmt.Errorf("record %d: %s is said to have been ended by #%d, and ended by itself", seq, x.id, call.Seq)
	}
	req := call.Body.GetCallRequested()
	named := req.GetStopContainer() != nil && x.stoppedBy == "StopContainer" || x.stoppedBy == "" ||
		strings.Contains(x.stoppedBy, "Sandbox") && req.GetStopContainer() == nil || r.sim.judge.lostRecordsAt > 0
	if !named {
		return fmt.Errorf("record %d: %s is said to have been ended by #%d, and %s ended it", seq, x.id, call.Seq,
			x.stoppedBy)
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

// TestAnswersAreTheSameFromSnapshots explains every pod of a long run with and without its sets of snapshots, and with
// its front cut behind one.
func TestAnswersAreTheSameFromSnapshots(t *testing.T) {
	whole := Busy(3, 12, 90*time.Minute, 2000).History()
	if len(whole.Sets) < 2 {
		t.Fatalf("only %d sets of snapshots", len(whole.Sets))
	}
	plain := &history.Memory{Name: whole.Name, Records: whole.Records, Manifests: whole.Manifests}
	first := slices.Min(slices.Collect(maps.Keys(whole.Sets)))
	cut := &history.Memory{
		Name: whole.Name, Records: whole.Records[first:], Manifests: whole.Manifests, Sets: whole.Sets,
	}
	uids := map[string]bool{}
	for _, rec := range whole.Records[len(whole.Records)/2:] {
		if ref := messages.RefOf(rec.GetActor()); ref == messages.Pod(ref.ID) {
			uids[ref.ID] = true
		}
	}
	explained := 0
	for uid := range uids {
		want, err := why.Explain(t.Context(), plain, why.Query{Pod: uid})
		if err != nil {
			t.Fatal(err)
		}
		for name, m := range map[string]*history.Memory{"whole": whole, "cut": cut} {
			got, err := why.Explain(t.Context(), m, why.Query{Pod: uid})
			if err != nil {
				t.Errorf("%s: %s: %v", name, uid, err)
				continue
			}
			explained++
			if got.State != want.State || got.Because != want.Because || !got.Since.Equal(want.Since) ||
				!got.Until.Equal(want.Until) {
				t.Errorf("%s: other answers with snapshots\n  %s\n  %s", name, want.Summary, got.Summary)
			}
		}
	}
	t.Logf("%d records, %d sets of snapshots, %d answers", len(whole.Records), len(whole.Sets), explained)
	if explained < 12 {
		t.Error("too few to show anything")
	}
}

// TestAnswersAreTheSameFromFiles explains the pods of a long run from the files of its journal, where records about a
// pod are found by its UID, and from memory, where all are read: the answers are the same to the byte.
func TestAnswersAreTheSameFromFiles(t *testing.T) {
	m := Busy(5, 12, 150*time.Minute, 5000).History() // with a restart of the agent
	dir := t.TempDir()
	must.OK(t, Store(t.Context(), m, filepath.Join(dir, open.BusDir)))
	files, err := open.Path(t.Context(), dir)
	must.OK(t, err)
	if _, ok := files.(history.Finder); !ok {
		t.Fatal("nothing is found in files by what it holds")
	}
	var queries []why.Query
	add := func(q why.Query) {
		if !slices.Contains(queries, q) {
			queries = append(queries, q)
		}
	}
	for _, rec := range m.Records {
		for _, e := range messages.Events(rec) {
			uid := messages.RefOf(rec.GetActor()).ID
			for _, c := range e.GetPodObserved().GetContainers() {
				add(why.Query{Pod: uid, All: true})
				add(why.Query{UID: uid, Container: c.GetName()})
				add(why.Query{Pod: uid, Container: c.GetName(), Restart: 1, All: true})
			}
			if ref := e.GetPodUpdated().GetPod(); ref.GetName() != "" {
				add(why.Query{Pod: ref.GetName(), Namespace: ref.GetNamespace()})
			}
		}
	}
	explained := 0
	for i, q := range queries {
		if i%3 != 0 { // each costs a read of much of the journal, twice
			continue
		}
		want, wantErr := explainJSON(t, m, q)
		got, gotErr := explainJSON(t, files, q)
		if got != want || gotErr != wantErr {
			t.Errorf("%+v: other answers from files\n  %s%s\n  %s%s", q, want, wantErr, got, gotErr)
		}
		if want != "" {
			explained++
		}
	}
	t.Logf("%d records, %d sets of snapshots; %d of %d queries have an answer", len(m.Records), len(m.Sets), explained,
		len(queries)/3)
	if explained < 50 {
		t.Error("too few to show anything")
	}
}

// explainJSON returns an answer in its JSON form, or the error in words.
func explainJSON(t *testing.T, r history.Reader, q why.Query) (answer, fault string) {
	t.Helper()
	a, err := why.Explain(t.Context(), r, q)
	if err != nil {
		return "", err.Error()
	}
	b, err := json.Marshal(a)
	must.OK(t, err)
	return string(b), ""
}
