package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/journalet/journalet/runtime/clock"
)

// driverClock is the virtual time of a driver that runs on coroutines.
type driverClock struct {
	*virtualTime
	run *run
}

var _ interface {
	clock.Virtual
	clock.Waiting
} = driverClock{}

// AfterFunc implements clock.Clock.
func (c driverClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	e := c.after(c.run.scope, d, func() { f(); c.run.interruptEnded() })
	return e.cancel
}

// Wait implements clock.Virtual.
func (c driverClock) Wait(ctx context.Context, d time.Duration) error {
	c.run.pause(ctx, d)
	return ctx.Err()
}

type timeoutKey struct{}

// WithTimeout implements clock.Virtual. criConn enforces the timeout.
func (driverClock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithValue(ctx, timeoutKey{}, d), func() {}
}

func timeoutOf(ctx context.Context) time.Duration {
	d, _ := ctx.Value(timeoutKey{}).(time.Duration)
	return d
}

// steadyClock is virtual time that setting the clock does not change, as monotonic time is.
type steadyClock struct {
	driverClock
	wall time.Time
}

func newSteadyClock(r *run) steadyClock { return steadyClock{driverClock{r.clock, r}, r.clock.wall} }

// Now implements clock.Clock.
func (c steadyClock) Now() time.Time { return c.wall.Add(c.uptime) }

// interruptEnded wakes the coroutines whose context has ended.
func (r *run) interruptEnded() {
	for _, p := range r.scope.procs {
		if ctx := r.waits[p]; ctx != nil && ctx.Err() != nil {
			p.interrupt()
		}
	}
}

// pause has the present coroutine wait, until d has passed, it is interrupted or a context has ended.
func (r *run) pause(ctx context.Context, d time.Duration) {
	p := r.clock.current
	r.waits[p] = ctx
	defer delete(r.waits, p)
	p.sleep(d)
}

// NewLock implements clock.Waiting, as do the methods below.
func (c driverClock) NewLock() clock.Lock { return &lock{run: c.run} }

// NewBell returns a bell.
func (c driverClock) NewBell() clock.Bell { return &bell{run: c.run} }

// NewGroup returns a group.
func (c driverClock) NewGroup(limit int) clock.Group { return &group{run: c.run, limit: limit} }

// lock is a lock that coroutines wait for. It implements clock.Lock.
type lock struct {
	run    *run
	held   bool
	queued []*proc
}

// Acquire waits for the lock, or until ctx has ended.
func (l *lock) Acquire(ctx context.Context) error {
	p := l.run.clock.current
	for l.held && ctx.Err() == nil {
		l.queued = append(l.queued, p)
		l.run.pause(ctx, time.Hour)
		l.queued = slices.DeleteFunc(l.queued, func(other *proc) bool { return other == p })
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.held = true
	return nil
}

// Release lets the first that waits continue.
func (l *lock) Release() {
	l.held = false
	if len(l.queued) > 0 {
		l.queued[0].interrupt()
	}
}

// bell implements clock.Bell.
type bell struct {
	run    *run
	rung   bool
	waiter *proc
}

// Ring wakes who waits.
func (b *bell) Ring() {
	if b.rung = true; b.waiter != nil {
		b.waiter.interrupt()
	}
}

// Wait waits until the bell rings, for d at most.
func (b *bell) Wait(ctx context.Context, d time.Duration) (rang bool, err error) {
	end := b.run.clock.uptime + d
	for b.waiter = b.run.clock.current; !b.rung && ctx.Err() == nil; {
		left := end - b.run.clock.uptime
		switch {
		case d == clock.Forever:
			left = time.Hour
		case left <= 0:
			b.waiter = nil
			return false, nil
		}
		b.run.pause(ctx, left)
	}
	b.waiter = nil
	if err := ctx.Err(); err != nil {
		return false, err
	}
	b.rung = false
	return true, nil
}

// group implements clock.Group.
type group struct {
	run            *run
	limit, running int
	waiter         *proc
}

// Go starts f as a coroutine.
func (g *group) Go(f func()) {
	if g.limit > 0 {
		g.wait(g.limit - 1)
	}
	g.running++
	g.run.clock.start(g.run.scope, func(*proc) {
		f()
		if g.running--; g.waiter != nil {
			g.waiter.interrupt()
		}
	})
}

// Wait waits until none runs.
func (g *group) Wait() { g.wait(0) }

// wait waits until no more than most run. At the end of a run nobody is waited for: all end.
func (g *group) wait(most int) {
	for g.running > most && !g.run.scope.over {
		g.waiter = g.run.clock.current
		g.waiter.sleep(time.Hour)
		g.waiter = nil
	}
}
