package simulation

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// wildText is what a registry or a program may put into an error: it clears the screen, and is no UTF-8.
const wildText = " \x1b[2J\xff"

// failedCall is an error of the runtime with a text that drivers match.
func failedCall(text string) error { return status.Error(codes.Unknown, text) }

var (
	// errAway: the runtime does not run, or the connection was lost.
	errAway = status.Error(codes.Unavailable, "unavailable")
	// errLate: no response came in time.
	errLate     = status.Error(codes.DeadlineExceeded, "deadline exceeded")
	errNotFound = status.Error(codes.NotFound, "not found")
)

// reserved: the runtime has an object of this name already.
func reserved(what, by string) error { return failedCall(what + " name is reserved for " + by) }

func isAway(err error) bool {
	return status.Code(err) == codes.Unavailable || status.Code(err) == codes.DeadlineExceeded
}

// How long the runtime takes when nothing slows it.
const (
	tookSandbox   = 220 * time.Millisecond
	tookContainer = 30 * time.Millisecond
	tookRemoval   = 25 * time.Millisecond
	tookRead      = 3 * time.Millisecond
	// slowness is the factor while the runtime is slow.
	slowness = 40
)

// rpc performs one request of the runtime and waits for the response. do is the work; gone says that the client died
// or gave up meanwhile. If the runtime died, hangs or the response is lost, the work may have been done or not.
func (r *run) rpc(ctx context.Context, took time.Duration, do func(gone bool) error) error {
	w, p, timeout := r.world, r.clock.current, timeoutOf(ctx)
	r.waits[p] = ctx
	defer delete(r.waits, p)
	if !w.up {
		p.sleep(between(w.noise, time.Millisecond, 20*time.Millisecond))
		return errAway
	}
	took = between(w.noise, took/3, took*3/2)
	if w.clock.uptime < w.slowUntil || !w.calm && chance(w.noise, 60) {
		took *= slowness
	}
	work := took / 2
	if w.clock.uptime < w.hungUntil {
		work += w.hungUntil - w.clock.uptime
	}
	run := w.run
	var err error
	late, over := work >= timeout, false
	w.clock.after(nil, work, func() {
		gone := late || p.owner.over
		if w.run != run || gone && chance(w.noise, 2) {
			return
		}
		err, over = do(gone), true
	})
	if late {
		p.sleep(timeout)
		return errLate
	}
	p.sleep(work + took/2)
	switch {
	case !over || w.run != run:
		return errAway
	case !w.calm && w.mishaps > 0 && chance(w.noise, 4*w.mishaps):
		return errAway
	}
	return err
}
