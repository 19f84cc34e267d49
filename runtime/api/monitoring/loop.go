package monitoring

import (
	"sync"
	"time"
)

// Loop records since when a loop of the agent handles its current item. The zero value is a loop between two items. It
// is safe for concurrent use.
type Loop struct {
	// Now is the clock; nil: time.Now.
	Now func() time.Time

	mu    sync.Mutex
	since time.Time // zero between two items
	waits int       // waits for the world under way
}

func (l *Loop) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// Begin begins an item.
func (l *Loop) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = l.now()
}

// End ends the item.
func (l *Loop) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Time{}
}

// Wait begins a wait for the world, such as a read from disk; done ends it. Meanwhile the loop is not stuck, however
// long it takes, and afterwards the item has its whole time again. Others may wait at the same time: they lend the loop
// their time.
func (l *Loop) Wait() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waits--
		if !l.since.IsZero() {
			l.since = l.now()
		}
	}
}

// Stuck reports whether the loop has handled one item for longer than bound, and since when.
func (l *Loop) Stuck(bound time.Duration) (since time.Time, stuck bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.waits == 0 && !l.since.IsZero() && l.now().Sub(l.since) > bound
}
