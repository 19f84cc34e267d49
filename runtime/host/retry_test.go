package host

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func TestPatchesOfAQuarantinedPodBecomeOneRetry(t *testing.T) {
	m := newMemory(t)
	var broken atomic.Bool
	broken.Store(true)
	h := startHost(t, m, failing(2, &broken))
	defer stopHost(t, h)
	h.retries.pause = func(failures int) time.Duration { return time.Duration(failures) * time.Hour }
	h.Outcome(messages.Pod("a"), observed("a"))
	h.Outcome(messages.Pod("a"), observed("a"))
	m.await(t, "quarantine", isQuarantine("a"))
	h.repairs.Wait()
	update := func() *journaletv1.Event {
		return messages.NewEvent(&journaletv1.PodUpdated{
			Operation: journaletv1.PodOperation_POD_OPERATION_UPDATE, Pod: &journaletv1.PodRef{Uid: "a"},
		})
	}
	must.OK(t, m.queueFor(messages.Source(messages.FileSource), update()))
	lifted := m.await(t, "the retry", func(rec *journaletv1.Record) bool {
		return rec.GetFact().GetQuarantineLifted() != nil
	})
	m.await(t, "quarantine again", func(rec *journaletv1.Record) bool {
		return rec.GetSeq() > lifted.GetSeq() && isQuarantine("a")(rec)
	})
	for range 100 {
		must.OK(t, m.queueFor(messages.Source(messages.FileSource), update()))
	}
	h.Outcome(messages.Pod("b"), observed("b"))
	m.await(t, "what came after the patches", statusOf("b", 2))
	retried := 0
	for _, rec := range m.all() {
		if rec.GetFact().GetQuarantineLifted() != nil {
			retried++
		}
	}
	h.retries.mu.Lock()
	defer h.retries.mu.Unlock()
	if retried != 1 || len(h.retries.actors) != 1 || !h.retries.actors[messages.Pod("a")].waits {
		t.Errorf("retried %d times; %v", retried, h.retries.actors)
	}
}

func TestPausesBetweenRetriesDouble(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: 0, 1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 9: 256 * time.Second, 10: maxRetryPause,
		1000: maxRetryPause,
	} {
		if got := retryPause(failures); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
}
