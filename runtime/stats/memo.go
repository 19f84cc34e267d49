package stats

import (
	"context"
	"sync"
	"time"
)

// memo is a measurement that may be slow, or hang: it runs on a goroutine of its own, one at a time, and only while
// somebody asks and the last result is older than its period.
type memo[T any] struct {
	period  time.Duration
	measure func(context.Context) (T, error)

	mu     sync.Mutex
	value  T
	at     time.Time // of value; zero: none yet
	flight chan struct{}
}

// get returns the newest result and when it was measured. If it is older than the period, get measures again and waits
// for that until wait ends; then it returns what there is. Without any result yet, ok is false.
func (m *memo[T]) get(wait context.Context, now time.Time) (value T, at time.Time, ok bool) {
	m.mu.Lock()
	if !m.at.IsZero() && now.Sub(m.at) < m.period {
		defer m.mu.Unlock()
		return m.value, m.at, true
	}
	if m.flight == nil {
		m.flight = make(chan struct{})
		go m.run(m.flight)
	}
	done := m.flight
	m.mu.Unlock()
	select {
	case <-done:
	case <-wait.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value, m.at, !m.at.IsZero()
}

// start begins a measurement if one is due, without waiting for it.
func (m *memo[T]) start(now time.Time) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	m.get(ended, now)
}

func (m *memo[T]) run(done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), slowTimeout)
	defer cancel()
	value, err := m.measure(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flight = nil
	if err == nil {
		m.value, m.at = value, time.Now()
	}
}
