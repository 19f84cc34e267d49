package clock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Manual is a clock of tests. It stands still until Advance moves it. Timers fire on the goroutine that calls Advance,
// in order of their deadline and, among equals, in the order they were set: one seed and one script of advances is one
// run.
type Manual struct {
	mu      sync.Mutex
	now     time.Time
	timers  []*manualTimer // in firing order
	changed chan struct{}  // closed and replaced whenever the set of timers changes
}

// NewManual returns a clock that shows start.
func NewManual(start time.Time) *Manual {
	return &Manual{now: start, changed: make(chan struct{})}
}

// Now is the time that the clock was last moved to.
func (c *Manual) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc arms a timer. With d <= 0 it fires at the next Advance, Advance(0) included.
func (c *Manual) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &manualTimer{clock: c, at: c.now.Add(max(d, 0)), f: f}
	c.timers = append(c.timers, t)
	slices.SortStableFunc(c.timers, func(a, b *manualTimer) int { return a.at.Compare(b.at) })
	c.signal()
	return t.stop
}

// Advance moves the clock by d and fires what becomes due on the way at its own time, including timers that the fired
// ones set.
func (c *Manual) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.now.Add(max(d, 0))
	for len(c.timers) > 0 && !c.timers[0].at.After(end) {
		t := c.timers[0]
		c.timers = c.timers[1:]
		if t.at.After(c.now) {
			c.now = t.at
		}
		c.signal()
		c.mu.Unlock()
		t.f()
		c.mu.Lock()
	}
	if end.After(c.now) {
		c.now = end
	}
}

// WaitPending returns once at least n timers are armed, or with the context's error. A test uses it to move the clock
// only after the call that it watches has begun to wait.
func (c *Manual) WaitPending(ctx context.Context, n int) error {
	for {
		c.mu.Lock()
		enough, changed := len(c.timers) >= n, c.changed
		c.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// signal wakes WaitPending. The caller holds c.mu.
func (c *Manual) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

type manualTimer struct {
	clock *Manual
	at    time.Time
	f     func()
}

func (t *manualTimer) stop() bool {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.timers, t)
	if i < 0 {
		return false
	}
	c.timers = slices.Delete(c.timers, i, i+1)
	c.signal()
	return true
}
