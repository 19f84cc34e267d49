package host

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/test/must"
)

func isQuarantine(uid string) func(*journaletv1.Record) bool {
	return func(rec *journaletv1.Record) bool { return rec.GetFact().GetQuarantined().GetId() == uid }
}

// verbose is a counter that reports each of its statuses with n more events of size bytes.
type verbose struct {
	*counter
	n, size func() int
}

func (v *verbose) Decide(in actors.Input, emit actors.Emit) {
	v.counter.Decide(in, emit)
	if in.Events[0].Body.GetPodObserved() == nil {
		return
	}
	for range v.n() {
		emit(messages.NewEvent(&journaletv1.PodStatusChanged{Message: "secret" + strings.Repeat("x", v.size())}))
	}
}

func verbosePods(n, size func() int) fold.Deciders {
	return func(ref messages.Ref) actors.Decider {
		if c, ok := counters(nil)(ref).(*counter); ok && ref == messages.Pod("a") {
			return &verbose{c, n, size}
		}
		return counters(nil)(ref)
	}
}

func always(n int) func() int { return func() int { return n } }

func TestRefusedStepQuarantinesItsActor(t *testing.T) {
	m := newMemory(t)
	var many atomic.Int64
	h := startHost(t, m, verbosePods(func() int { return int(many.Load()) }, always(2*messages.MaxRecordBytes)))
	defer stopHost(t, h)
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "a step", statusOf("a", 2))
	many.Store(1)
	h.Outcome(messages.Pod("a"), observed("a"))
	h.Outcome(messages.Pod("b"), observed("b"))
	q := m.await(t, "quarantine", isQuarantine("a")).GetFact().GetQuarantined()
	if q.GetCode() != journaletv1.DecisionError_DECISION_ERROR_STEP_REFUSED ||
		!strings.Contains(q.GetMessage(), "2 pod_status_changed") || strings.Contains(q.GetMessage(), "secret") {
		t.Errorf("quarantined for %v", q)
	}
	m.await(t, "the other actor keeps running", statusOf("b", 2))
	if got := count(t, h, "a"); got != 2 {
		t.Errorf("the actor's count is %d, and the journal has 2", got)
	}
	// The manifest was shortened, say.
	many.Store(0)
	must.OK(t, h.LiftQuarantine(messages.Pod("a"), false))
	m.await(t, "the step that was refused", statusOf("a", 3))
}

func TestActorWithoutValidNameIsQuarantinedInTheAgentsName(t *testing.T) {
	m := newMemory(t)
	m.refuse = func(rec *journaletv1.Record) error {
		if id := rec.GetActor().GetId(); len(id) > 64 {
			return errors.New("no valid name")
		}
		return nil
	}
	h := startHost(t, m, counters(nil))
	defer stopHost(t, h)
	long := strings.Repeat("u", 65)
	must.OK(t, m.queueFor(messages.Agent, observed(long)))
	rec := m.await(t, "quarantine", isQuarantine(long))
	if messages.RefOf(rec.GetActor()) != messages.Agent {
		t.Errorf("recorded about %v", rec.GetActor())
	}
	if h.Quarantines()[messages.Pod(long)] == nil {
		t.Errorf("quarantined are %v", h.Quarantines())
	}
}

func TestRefusedOutcomeIsKeptForTheAgentsHealth(t *testing.T) {
	m := newMemory(t)
	h := startHost(t, m, counters(nil))
	defer stopHost(t, h)
	if err := h.Refused(); err != nil {
		t.Error(err)
	}
	h.Outcome(messages.Pod("a"), messages.NewEvent(&journaletv1.CallFinished{
		Requester: "pod/a", Message: "secret" + strings.Repeat("x", messages.MaxRecordBytes),
	}))
	if err := h.Refused(); err == nil || strings.Contains(err.Error(), "secret") ||
		!strings.Contains(err.Error(), "call_finished about pod/a") {
		t.Errorf("refused: %v", err)
	}
}

// startAgain starts a host over the journal of another, from the records up to last.
func startAgain(t *testing.T, m *memory, last int, deciders fold.Deciders) (*memory, *Host) {
	t.Helper()
	next := newMemory(t)
	m.mu.Lock()
	next.records, next.barrier, next.snaps, next.cut = m.records[:last:last], m.barrier, m.snaps, m.cut
	m.mu.Unlock()
	next.delivered = uint64(last)
	return next, startHost(t, next, deciders)
}

func TestLargeStepIsStoredInParts(t *testing.T) {
	m := newMemory(t)
	const n = 40
	deciders := verbosePods(always(n), always(messages.MaxRecordBytes/10))
	h := startHost(t, m, deciders)
	h.Outcome(messages.Pod("a"), observed("a"))
	must.OK(t, m.Flush(t.Context()))
	last := m.await(t, "the last part", func(rec *journaletv1.Record) bool {
		return rec.GetStep().GetOffset() > 0 && !rec.GetStep().GetMore()
	})
	if q := h.Quarantines(); len(q) > 0 {
		t.Fatalf("quarantined are %v", q)
	}
	first := m.await(t, "the first part", func(rec *journaletv1.Record) bool { return rec.GetStep().GetMore() })
	decisions := 0
	for _, rec := range m.all()[first.GetSeq()-1 : last.GetSeq()] {
		if size := proto.Size(rec); size > messages.MaxRecordBytes/2 {
			t.Errorf("part %d has %d bytes", rec.GetSeq(), size)
		}
		if got := int(rec.GetStep().GetOffset()); got != decisions {
			t.Errorf("part %d has offset %d, want %d", rec.GetSeq(), got, decisions)
		}
		decisions += len(rec.GetStep().GetDecisions())
	}
	if decisions != n+1 {
		t.Errorf("the parts hold %d decisions, want %d", decisions, n+1)
	}
	stopHost(t, h)
	m.barrier, m.snaps = 0, nil
	// Whole: the next run folds it. Its last part lost in a crash: the next run takes it again.
	for _, kept := range []uint64{last.GetSeq(), last.GetSeq() - 1} {
		m2, h := startAgain(t, m, int(kept), deciders)
		h.Outcome(messages.Pod("a"), observed("a"))
		m2.await(t, "the next step", statusOf("a", 4)) // after the start of the run
		whole := 0
		var joined fold.Parts
		for _, rec := range m2.all() {
			if rec = joined.Join(rec); rec != nil && rec.GetStep().GetCause() == first.GetStep().GetCause() {
				whole++
			}
		}
		if whole != 1 {
			t.Errorf("with records up to %d the step was taken %d times", kept, whole)
		}
		stopHost(t, h)
	}
}

// failing fails pod a with the count n while broken is set.
func failing(n uint64, broken *atomic.Bool) fold.Deciders {
	return counters(func(c *counter) {
		c.fail = func(actors.Event) error {
			if c.ref == messages.Pod("a") && c.state.GetGeneration() == n && broken.Load() {
				return errors.New("no")
			}
			return nil
		}
	})
}

func TestSnapshotsAndRetentionContinueDuringAQuarantine(t *testing.T) {
	m := newMemory(t)
	var broken atomic.Bool
	broken.Store(true)
	h := startHost(t, m, failing(3, &broken))
	for range 60 {
		h.Outcome(messages.Pod("b"), observed("b"))
	}
	m.await(t, "b", statusOf("b", 61))
	must.OK(t, h.Snapshot(t.Context())) // without a
	healthy := m.barrier
	for range 4 { // the start, two records, and two that it misses
		h.Outcome(messages.Pod("a"), observed("a"))
	}
	m.await(t, "quarantine", isQuarantine("a"))
	for range 60 {
		h.Outcome(messages.Pod("b"), observed("b"))
	}
	m.await(t, "b again", statusOf("b", 121))
	at := cutAll(t, h, m)
	if m.barrier < healthy+60 {
		t.Fatalf("the snapshots contain the records up to %d of %d", m.barrier, m.Last())
	}
	if at < healthy || at > healthy+3 {
		t.Fatalf("cut up to %d, and the actor needs the records after %d", at, healthy+3)
	}
	h.stop() // like a kill
	h.repairs.Wait()
	// The fault lasts: the next run has the same quarantine, from the snapshot.
	m, h = startAgain(t, m, int(m.Last()), failing(3, &broken))
	h.repairs.Wait()
	if h.Quarantines()[messages.Pod("a")] == nil || count(t, h, "a") != 3 {
		t.Fatalf("after a start the count is %d, quarantined are %v", count(t, h, "a"), h.Quarantines())
	}
	must.OK(t, h.Snapshot(t.Context()))
	broken.Store(false)
	must.OK(t, h.LiftQuarantine(messages.Pod("a"), false))
	m.await(t, "the steps on all that it missed", statusOf("a", 5))
	if len(h.Quarantines()) > 0 {
		t.Errorf("still quarantined: %v", h.Quarantines())
	}
	if at := cutAll(t, h, m); at != m.barrier {
		t.Errorf("cut up to %d of %d", at, m.barrier)
	}
	stopHost(t, h)
}

func TestLiftSkipsTheRecordThatFailed(t *testing.T) {
	m := newMemory(t)
	poisoned := func(c *counter) {
		c.fail = func(e actors.Event) error {
			if len(e.Body.GetPodObserved().GetSandboxes()) == 2 {
				return errors.New("two sandboxes")
			}
			return nil
		}
	}
	h := startHost(t, m, counters(poisoned))
	h.Outcome(messages.Pod("a"), observed("a"))
	poison := observed("a")
	poison.GetPodObserved().Sandboxes = append(poison.GetPodObserved().Sandboxes, &journaletv1.SandboxObservation{Id: "t"})
	h.Outcome(messages.Pod("a"), poison)
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "quarantine", isQuarantine("a"))
	h.repairs.Wait()
	if err := h.LiftQuarantine(messages.Pod("a"), false); err == nil {
		t.Fatal("the record that fails always was handled")
	}
	must.OK(t, h.LiftQuarantine(messages.Pod("a"), true))
	m.await(t, "the step on the record after it", statusOf("a", 3))
	if err := h.LiftQuarantine(messages.Pod("a"), true); !errors.Is(err, ErrNotQuarantined) {
		t.Errorf("lifted twice: %v", err)
	}
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "the next step", statusOf("a", 4))
	stopHost(t, h)
	// Every fold skips it, with snapshots and without.
	for _, snapshots := range []bool{true, false} {
		m2, h := startAgain(t, m, int(m.Last()), counters(poisoned))
		if !snapshots {
			stopHost(t, h)
			m2 = newMemory(t)
			m2.records = m.all()
			m2.delivered = uint64(len(m2.records))
			h = startHost(t, m2, counters(poisoned))
		}
		h.Outcome(messages.Pod("a"), observed("a"))
		m2.await(t, "the step of the next run", statusOf("a", 6))
		if q := h.Quarantines(); len(q) > 0 {
			t.Errorf("with snapshots %v: quarantined are %v", snapshots, q)
		}
		stopHost(t, h)
	}
}

func TestChangedManifestEndsAQuarantine(t *testing.T) {
	m := newMemory(t)
	var broken atomic.Bool
	broken.Store(true)
	h := startHost(t, m, failing(2, &broken))
	defer stopHost(t, h)
	h.Outcome(messages.Pod("a"), observed("a"))
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "quarantine", isQuarantine("a"))
	h.repairs.Wait()
	update := messages.NewEvent(&journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_REMOVE, Pod: &journaletv1.PodRef{Uid: "a"},
	})
	// It fails still, and is quarantined again.
	must.OK(t, m.queueFor(messages.Source(messages.FileSource), update))
	again := m.await(t, "the try", func(rec *journaletv1.Record) bool {
		return rec.GetFact().GetQuarantineLifted() != nil
	})
	m.await(t, "quarantine again", func(rec *journaletv1.Record) bool {
		return rec.GetSeq() > again.GetSeq() && isQuarantine("a")(rec)
	})
	h.repairs.Wait()
	broken.Store(false)
	must.OK(t, m.queueFor(messages.Source(messages.FileSource), proto.CloneOf(update)))
	m.await(t, "the step that it missed", statusOf("a", 3))
	h.repairs.Wait()
	if q := h.Quarantines(); len(q) > 0 {
		t.Errorf("quarantined are %v", q)
	}
}

func TestLiftNamesRecordsThatWereCut(t *testing.T) {
	m := newMemory(t)
	var broken atomic.Bool
	broken.Store(true)
	h := startHost(t, m, failing(1, &broken))
	h.Outcome(messages.Pod("a"), observed("a"))
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "quarantine", isQuarantine("a"))
	h.repairs.Wait()
	must.OK(t, h.Snapshot(t.Context()))
	h.stop()
	m.cut = m.barrier // beyond bus.KeptForQuarantined
	m, h = startAgain(t, m, int(m.Last()), failing(1, &broken))
	defer stopHost(t, h)
	h.repairs.Wait()
	broken.Store(false)
	if err := h.LiftQuarantine(messages.Pod("a"), false); err == nil || !strings.Contains(err.Error(), "--skip") {
		t.Fatalf("lifted without its records: %v", err)
	}
	must.OK(t, h.LiftQuarantine(messages.Pod("a"), true))
	before := count(t, h, "a")
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "the next step", statusOf("a", uint32(before)+1))
}

func TestSkippedRecordsOfKeptQuarantineAreBounded(t *testing.T) {
	set := []*journaletv1.Snapshot{{}, {Quarantined: &journaletv1.Quarantined{}, Contained: 7}}
	for barrier, want := range map[uint64]uint64{
		5: 5, 9: 7, bus.KeptForQuarantined + 5: 7, bus.KeptForQuarantined + 20: 20,
	} {
		if got := bus.NeededAfter(barrier, set); got != want {
			t.Errorf("with snapshots at %d all after %d stay, want %d", barrier, got, want)
		}
	}
}
