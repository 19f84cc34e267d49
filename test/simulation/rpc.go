package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// callError is what the runtime answered: its words, which drivers read.
type callError struct{ text string }

func (e *callError) Error() string { return e.text }

func failedCall(text string) error { return &callError{text} }

var (
	// errAway: there was nobody to answer, or the connection was lost.
	errAway = errors.New("unavailable")
	// errLate: no answer came in time.
	errLate     = errors.New("deadline exceeded")
	errNotFound = errors.New("not found")
)

// reservedError: the runtime holds the name of what was to be made.
type reservedError struct{ what, by string }

func (e *reservedError) Error() string {
	return fmt.Sprintf("%s name is reserved for %s", e.what, e.by)
}

func reserved(what, by string) error { return &reservedError{what, by} }

func isReserved(err error) bool {
	var r *reservedError
	return errors.As(err, &r)
}

// isDoubt tells whether an error leaves open what became of a call (runtime/cri/doubt.go).
func isDoubt(err error) bool {
	return errors.Is(err, errAway) || errors.Is(err, errLate) || errors.Is(err, context.Canceled)
}

// What the runtime takes for its work when nothing slows it.
const (
	tookSandbox = 220 * time.Millisecond
	tookMaking  = 30 * time.Millisecond
	tookRemoval = 25 * time.Millisecond
	tookLook    = 3 * time.Millisecond
	// slowness is how much longer everything takes while the runtime is slow.
	slowness = 40
)

// rpc makes one request of the runtime and waits for its answer. do is the work; gone says that who asked died meanwhile.
// A runtime that died, hangs or loses the answer leaves it open whether the work was done.
func (w *world) rpc(p *proc, took, timeout time.Duration, do func(gone bool) error) error {
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
		gone := late || p.of.over
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
