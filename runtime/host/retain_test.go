package host

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// cutAll cuts all records that Retain permits.
func cutAll(t *testing.T, h *Host, m *memory) uint64 {
	t.Helper()
	var at uint64
	if err := h.Retain(t.Context(), func(barrier uint64, set []*journaletv1.Snapshot) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if barrier = bus.NeededAfter(barrier, set); len(set) == 0 || barrier > m.barrier {
			t.Errorf("got a set of %d states at %d, want that at %d", len(set), barrier, m.barrier)
		}
		m.cut, at = barrier, barrier
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestStateOutlivesItsCutRecords(t *testing.T) {
	m := newMemory(t)
	h := startHost(t, m, counters(nil))
	for range 50 {
		h.Outcome(messages.Pod("a"), observed("a"))
	}
	m.await(t, "last step of a", statusOf("a", 51))
	if at := cutAll(t, h, m); at < 50 {
		t.Fatalf("cut to %d", at)
	}
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "the step after the cut", statusOf("a", 52))
	h.stop() // without snapshots, like a kill
	h = startHost(t, m, counters(nil))
	defer stopHost(t, h)
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "the step of the next run", statusOf("a", 54)) // its start counts too
}

func TestRecordsOfAQuarantinedActorAreNotCut(t *testing.T) {
	m := newMemory(t)
	var broken atomic.Bool
	h := startHost(t, m, counters(func(c *counter) {
		c.fail = func(actors.Event) error {
			if c.ref == messages.Pod("a") && broken.Load() {
				return errors.New("no")
			}
			return nil
		}
	}))
	defer stopHost(t, h)
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "a step of a", statusOf("a", 2))
	before := cutAll(t, h, m)
	broken.Store(true)
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "quarantine", func(rec *journaletv1.Record) bool { return rec.GetFact().GetQuarantined() != nil })
	if at := cutAll(t, h, m); at != before {
		t.Fatalf("cut to %d, but the records after %d are still needed", at, before)
	}
	broken.Store(false)
	must.OK(t, h.LiftQuarantine(messages.Pod("a"), false))
	m.await(t, "the skipped step", statusOf("a", 3))
}

func TestMissingSnapshotsOfACutJournalResetTheState(t *testing.T) {
	m := newMemory(t)
	h := startHost(t, m, counters(nil))
	for range 50 {
		h.Outcome(messages.Pod("a"), observed("a"))
	}
	m.await(t, "last step of a", statusOf("a", 51))
	cutAll(t, h, m)
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "a step after the cut", statusOf("a", 52))
	h.stop()
	m.mu.Lock()
	m.barrier, m.snaps = 0, nil
	m.mu.Unlock()
	before := m.Last()
	h = startHost(t, m, counters(nil))
	defer stopHost(t, h)
	if n := len(h.Quarantines()); n > 0 {
		t.Fatalf("%d actors are quarantined", n)
	}
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "a as a new actor", func(rec *journaletv1.Record) bool {
		return rec.GetSeq() > before && statusOf("a", 2)(rec)
	})
	must.OK(t, h.Snapshot(t.Context()))
}
