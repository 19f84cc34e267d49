package host

import (
	"errors"
	"sync"
	"time"

	"github.com/journalet/journalet/messages"
)

const (
	// firstRetryPause and maxRetryPause bound the pause between two retries of a quarantined actor, which doubles between
	// the two: each folds the actor from the journal, and anybody who may patch a pod brings the next one.
	firstRetryPause = time.Second
	maxRetryPause   = 5 * time.Minute
)

// retryPause returns the pause after so many retries that have failed.
func retryPause(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(firstRetryPause<<min(failures-1, 20), maxRetryPause)
}

// retries are the quarantined actors that are to be retried, by one goroutine.
type retries struct {
	// pause is retryPause, unless a test sets it.
	pause func(failures int) time.Duration

	mu      sync.Mutex
	actors  map[messages.Ref]*retrying
	running bool
	wake    chan struct{}
}

// retrying is an actor that was retried, or waits for it.
type retrying struct {
	failures int
	last     time.Time // of the last retry
	waits    bool
}

// retry has a quarantined actor retried once its pause is over, together with what comes until then.
func (h *Host) retry(ref messages.Ref) {
	r := &h.retries
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.actors[ref] == nil {
		r.actors[ref] = new(retrying)
	}
	r.actors[ref].waits = true
	if !r.running {
		r.running = true
		h.repairs.Go(h.retryAll)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// next returns the actor that waits for the shortest time, and how long; false if none waits.
func (r *retries) next() (next messages.Ref, wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref, at := range r.actors {
		if left := time.Until(at.last.Add(r.pause(at.failures))); at.waits && (!ok || left < wait) {
			next, wait, ok = ref, left, true
		}
	}
	r.running = ok
	return next, wait, ok
}

// retryAll retries actors until none waits.
func (h *Host) retryAll() {
	r := &h.retries
	for h.ctx.Err() == nil {
		ref, wait, ok := r.next()
		if !ok {
			return
		}
		if wait > 0 {
			due := time.NewTimer(wait)
			select {
			case <-due.C:
			case <-r.wake:
			case <-h.ctx.Done():
			}
			due.Stop()
			continue
		}
		r.mu.Lock()
		r.actors[ref].waits = false
		r.mu.Unlock()
		err := h.LiftQuarantine(ref, false)
		r.mu.Lock()
		switch {
		case err == nil || errors.Is(err, ErrNotQuarantined) || errors.Is(err, ErrNoActor):
			if !r.actors[ref].waits {
				delete(r.actors, ref)
			}
		default:
			r.actors[ref].failures++
			r.actors[ref].last = time.Now()
			h.opts.Log.Warn("an actor stays quarantined", "actor", ref.String(), "err", firstLine(err.Error()),
				"retries", r.actors[ref].failures)
		}
		r.mu.Unlock()
	}
}
