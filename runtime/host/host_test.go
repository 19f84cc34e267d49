package host

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func statusOf(uid string, n uint32) func(*journaletv1.Record) bool {
	return func(rec *journaletv1.Record) bool {
		if messages.RefOf(rec.GetActor()) != messages.Pod(uid) {
			return false
		}
		for _, e := range rec.GetStep().GetDecisions() {
			if e.GetPodStatusChanged().GetRestarts() == n {
				return true
			}
		}
		return false
	}
}

func TestEachStepNamesItsCauseAndThePreviousOne(t *testing.T) {
	m := newMemory(t)
	h := startHost(t, m, counters(nil))
	defer stopHost(t, h)
	for range 100 {
		h.Outcome(messages.Pod("a"), observed("a"))
		h.Outcome(messages.Pod("b"), observed("b"))
	}
	// A new actor handles the start of the run first.
	m.await(t, "last step of a", statusOf("a", 101))
	m.await(t, "last step of b", statusOf("b", 101))
	last := map[messages.Ref]uint64{}
	for _, rec := range m.all() {
		ref := messages.RefOf(rec.GetActor())
		if s := rec.GetStep(); s != nil && ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
			if s.GetAfter() != last[ref] || s.GetCause() <= s.GetAfter() {
				t.Fatalf("step %d of %s: cause %d after %d, want after %d",
					rec.GetSeq(), ref, s.GetCause(), s.GetAfter(), last[ref])
			}
			last[ref] = s.GetCause()
		}
	}
}

// The agent appends what it found of the journal before the host starts.
func TestRecordAppendedBeforeTheStartIsRouted(t *testing.T) {
	m := newMemory(t)
	h := newHost(m, counters(nil))
	r, err := h.Recover()
	must.OK(t, err)
	h.Outcome(messages.Agent, messages.NewEvent(&journaletv1.JournalDamaged{Message: "cut"}))
	h.Start(r, &journaletv1.AgentStarted{Epoch: 1, Config: &journaletv1.AgentConfig{NodeName: "n"}})
	defer stopHost(t, h)
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "a step", statusOf("a", 2))
	must.OK(t, h.Snapshot(t.Context()))
	if m.barrier < 3 {
		t.Errorf("the snapshots contain the records up to %d of %d", m.barrier, m.Last())
	}
}

func TestLaggingActorCatchesUpFromTheJournal(t *testing.T) {
	m := newMemory(t)
	gate := make(chan struct{})
	h := startHost(t, m, counters(func(c *counter) {
		if c.ref == messages.Pod("slow") {
			c.gate = func() { <-gate }
		}
	}))
	defer stopHost(t, h)
	const n = 3 * mailboxSize
	for range n {
		h.Outcome(messages.Pod("slow"), observed("slow"))
		h.Outcome(messages.Pod("quick"), observed("quick"))
	}
	m.await(t, "the quick one is done", statusOf("quick", n+1))
	if !h.member(messages.Pod("slow")).box.behind() {
		t.Error("the slow actor does not lag")
	}
	count(t, h, "quick") // it has handled its last record
	if all := h.Hanging(0); all[messages.Pod("slow")].IsZero() || !all[messages.Pod("quick")].IsZero() {
		t.Errorf("hanging are %v", all)
	}
	if all := h.Hanging(time.Hour); len(all) > 0 {
		t.Errorf("after no hour: %v", all)
	}
	close(gate)
	m.await(t, "the slow one is done", statusOf("slow", n+1))
	if got := count(t, h, "slow"); got != n+1 {
		t.Fatalf("the slow actor handled %d events, want %d", got, n+1)
	}
	if all := h.Hanging(0); len(all) > 0 {
		t.Errorf("at the end %v hang", all)
	}
}

func TestFailedActorIsRebuiltWithoutLoss(t *testing.T) {
	m := newMemory(t)
	var failed atomic.Bool
	h := startHost(t, m, counters(func(c *counter) {
		c.fail = func(e actors.Event) error {
			if c.ref == messages.Pod("a") && c.state.GetGeneration() == 50 && failed.CompareAndSwap(false, true) {
				panic("transient failure")
			}
			return nil
		}
	}))
	defer stopHost(t, h)
	for range 100 {
		h.Outcome(messages.Pod("a"), observed("a"))
	}
	m.await(t, "last step", statusOf("a", 101))
	if got := count(t, h, "a"); got != 101 || !failed.Load() {
		t.Fatalf("count %d, failed %v: want 101 after one failure", got, failed.Load())
	}
	if q := h.Quarantines(); len(q) != 0 {
		t.Fatalf("quarantined: %v", q)
	}
}

func TestActorThatFailsRepeatedlyIsQuarantinedAlone(t *testing.T) {
	m := newMemory(t)
	poison := func(c *counter) {
		c.fail = func(e actors.Event) error {
			if c.ref == messages.Pod("bad") && c.state.GetGeneration() == 3 {
				return errors.New("cannot fold this event")
			}
			return nil
		}
	}
	h := startHost(t, m, counters(poison))
	for range 10 {
		h.Outcome(messages.Pod("bad"), observed("bad"))
		h.Outcome(messages.Pod("good"), observed("good"))
	}
	m.await(t, "quarantine", func(rec *journaletv1.Record) bool { return rec.GetFact().GetQuarantined() != nil })
	m.await(t, "the other actor keeps running", statusOf("good", 11))
	q := h.Quarantines()[messages.Pod("bad")]
	if q == nil || q.GetMessage() != "cannot fold this event" {
		t.Fatalf("quarantine: %v", q)
	}
	if got := count(t, h, "bad"); got != 3 {
		t.Fatalf("the quarantined actor shows count %d, want the last good 3", got)
	}
	stopHost(t, h)

	// A new run retries; a version without the fault handles all skipped records.
	m2 := newMemory(t)
	m2.records = m.all()
	m2.delivered = uint64(len(m2.records))
	h = startHost(t, m2, counters(nil))
	defer stopHost(t, h)
	m2.await(t, "the skipped records are handled", statusOf("bad", 11))
	h.repairs.Wait()
	if q := h.Quarantines(); len(q) != 0 {
		t.Fatalf("still quarantined: %v", q)
	}
}

func TestRestartFoldsToTheSameStateWithAndWithoutSnapshots(t *testing.T) {
	for _, snapshots := range []bool{false, true} {
		t.Run(fmt.Sprint("snapshots=", snapshots), func(t *testing.T) {
			m := newMemory(t)
			h := startHost(t, m, counters(nil))
			must.OK(t, m.Flush(t.Context()))
			for i := range 60 {
				if i == 30 && snapshots {
					must.OK(t, h.Snapshot(t.Context()))
				}
				h.Outcome(messages.Pod("a"), observed("a"))
			}
			m.await(t, "last step", statusOf("a", 61))
			want := count(t, h, "a")
			m2 := newMemory(t)
			m2.records, m2.barrier, m2.snaps = m.all(), m.barrier, m.snaps
			m2.delivered = uint64(len(m2.records))
			stopHost(t, h)
			if snapshots == (m2.barrier == 0) {
				t.Fatalf("barrier %d", m2.barrier)
			}
			h = startHost(t, m2, counters(nil))
			defer stopHost(t, h)
			h.Outcome(messages.Pod("a"), observed("a"))
			// The events from before, the new start, then this one.
			m2.await(t, "next step", statusOf("a", uint32(want)+2))
			n := 0
			for _, rec := range m2.all() {
				if statusOf("a", 61)(rec) {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("the last record was decided on %d times, want once", n)
			}
		})
	}
}

func TestLostStepIsTakenAgain(t *testing.T) {
	m := newMemory(t)
	h := startHost(t, m, counters(nil))
	for range 5 {
		h.Outcome(messages.Pod("a"), observed("a"))
	}
	m.await(t, "last step", statusOf("a", 6))
	stopHost(t, h)
	// A crash between the last fact and its step: the journal ends before that step.
	m2 := newMemory(t)
	m2.records = m.all()
	lost := m2.records[len(m2.records)-1]
	if !statusOf("a", 6)(lost) {
		t.Fatalf("the journal ends with %v", lost)
	}
	m2.records = m2.records[:len(m2.records)-1]
	m2.delivered = uint64(len(m2.records))
	h = startHost(t, m2, counters(nil))
	defer stopHost(t, h)
	again := m2.await(t, "the step again", statusOf("a", 6))
	got, want := again.GetStep(), lost.GetStep()
	if got.GetCause() != want.GetCause() || got.GetAfter() != want.GetAfter() {
		t.Fatalf("step again %v, lost %v", got, want)
	}
}

func TestUnhandledRecordsArePendingAfterAStart(t *testing.T) {
	m := newMemory(t)
	h := startHost(t, m, counters(nil))
	for range 3 {
		h.Outcome(messages.Pod("a"), observed("a"))
	}
	m.await(t, "last step", statusOf("a", 4))
	stopHost(t, h)
	// The journal ends before the last step: the step's cause is pending.
	m2 := newMemory(t)
	m2.records = m.all()[:len(m.all())-1]
	cause := m.all()[len(m.all())-1].GetStep().GetCause()
	again := New(Options{Journal: m2, Snapshots: m2, Deciders: counters(nil), Effects: noEffects{}})
	r, err := again.Recover()
	must.OK(t, err)
	var pending []uint64
	r.Pending(messages.Pod("a"), func(rec *journaletv1.Record) { pending = append(pending, rec.GetSeq()) })
	if len(pending) != 1 || pending[0] != cause {
		t.Fatalf("pending records %v, want [%d]", pending, cause)
	}
}

func TestLiftingAQuarantineLosesNoNewRecords(t *testing.T) {
	m := newMemory(t)
	var broken atomic.Bool
	broken.Store(true)
	h := startHost(t, m, counters(func(c *counter) {
		c.fail = func(actors.Event) error {
			if c.ref == messages.Pod("a") && c.state.GetGeneration() == 5 && broken.Load() {
				return errors.New("not yet")
			}
			return nil
		}
	}))
	defer stopHost(t, h)
	for range 10 {
		h.Outcome(messages.Pod("a"), observed("a"))
	}
	m.await(t, "quarantine", func(rec *journaletv1.Record) bool { return rec.GetFact().GetQuarantined() != nil })
	h.repairs.Wait()
	broken.Store(false)
	// More records are stored and routed while LiftQuarantine reads the journal.
	m.mu.Lock()
	m.reading = func() {
		if !h.member(messages.Pod("a")).box.isPaused() {
			t.Error("the old cell handles records while the journal is read")
		}
		for range 10 {
			h.Outcome(messages.Pod("a"), observed("a"))
		}
		if err := m.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	m.mu.Unlock()
	must.OK(t, h.LiftQuarantine(messages.Pod("a"), false))
	const n = 20
	m.await(t, "every event is handled", statusOf("a", n+1))
	last := uint64(0)
	for _, rec := range m.all() {
		if s := rec.GetStep(); s != nil && messages.RefOf(rec.GetActor()) == messages.Pod("a") {
			if s.GetAfter() != last {
				t.Fatalf("step %d follows %d, want %d", rec.GetSeq(), s.GetAfter(), last)
			}
			last = s.GetCause()
		}
	}
}
