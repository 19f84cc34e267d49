package clock

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// Waiting is what a clock has, too, whose callers are coroutines: who waits has to give way. Its methods work as the
// functions of their names do.
type Waiting interface {
	NewLock() Lock
	NewBell() Bell
	NewGroup(limit int) Group
}

// Lock is held by one caller at a time.
type Lock interface {
	// Acquire waits for the lock. It returns the context's error if that has ended, and has no lock then.
	Acquire(ctx context.Context) error
	Release()
}

// NewLock returns a lock. Those who wait for it get it in turn.
func NewLock(c Clock) Lock {
	if w, ok := c.(Waiting); ok {
		return w.NewLock()
	}
	return make(lock, 1)
}

// lock has an element while it is held.
type lock chan struct{}

// Acquire implements Lock.
func (l lock) Acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release implements Lock.
func (l lock) Release() { <-l }

// Bell wakes who waits for it; that is one at a time. Without anybody who waits, one ring is kept.
type Bell interface {
	// Ring does not block.
	Ring()
	// Wait waits until the bell rings, and reports that it did; no longer than d, or as long as it takes if d is Forever.
	// It returns the context's error if that has ended.
	Wait(ctx context.Context, d time.Duration) (rang bool, err error)
}

// Forever has a Bell waited for as long as it takes: no timer is set.
const Forever time.Duration = -1

// NewBell returns a bell.
func NewBell(c Clock) Bell {
	if w, ok := c.(Waiting); ok {
		return w.NewBell()
	}
	return &bell{c, make(chan struct{}, 1)}
}

type bell struct {
	clock Clock
	rings chan struct{}
}

// Ring implements Bell.
func (b *bell) Ring() {
	select {
	case b.rings <- struct{}{}:
	default:
	}
}

// Wait implements Bell.
func (b *bell) Wait(ctx context.Context, d time.Duration) (rang bool, err error) {
	var over chan struct{}
	if d != Forever {
		over = make(chan struct{})
		defer b.clock.AfterFunc(d, func() { close(over) })()
	}
	select {
	case <-b.rings:
		return true, nil
	case <-over:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Group runs functions at once.
type Group interface {
	// Go runs f as soon as fewer than the group's limit run. It waits for that.
	Go(f func())
	// Wait waits until all have returned.
	Wait()
}

// NewGroup returns a group that runs at most limit functions at once. With a limit of 0 it runs any number.
func NewGroup(c Clock, limit int) Group {
	if w, ok := c.(Waiting); ok {
		return w.NewGroup(limit)
	}
	g := &group{}
	if limit > 0 {
		g.goroutines.SetLimit(limit)
	}
	return g
}

type group struct{ goroutines errgroup.Group }

// Go implements Group.
func (g *group) Go(f func()) {
	g.goroutines.Go(func() error {
		f()
		return nil
	})
}

// Wait implements Group.
func (g *group) Wait() { _ = g.goroutines.Wait() } // none fails
