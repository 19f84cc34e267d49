package cri

import (
	"context"
	"time"
)

// Clock is the only source of time of the drivers, so that a simulation can control it.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once, d from now; stop reports whether it prevented the call. f must not block.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// RealClock is the machine's clock.
type RealClock struct{}

// Now returns time.Now.
func (RealClock) Now() time.Time { return time.Now() }

// AfterFunc calls time.AfterFunc.
func (RealClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// VirtualClock is a Clock of a simulation, which runs drivers as coroutines without goroutines to wait with.
type VirtualClock interface {
	Clock
	// Wait works as the function Wait does, by this clock.
	Wait(ctx context.Context, d time.Duration) error
	// WithTimeout works as context.WithTimeout does, by this clock.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// WithTimeout works as context.WithTimeout does; a VirtualClock has its own.
func WithTimeout(ctx context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	if v, ok := c.(VirtualClock); ok {
		return v.WithTimeout(ctx, d)
	}
	return context.WithTimeout(ctx, d)
}

// Wait waits for d by the clock, or returns the context's error.
func Wait(ctx context.Context, c Clock, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if v, ok := c.(VirtualClock); ok {
		return v.Wait(ctx, d)
	}
	fired := make(chan struct{})
	stop := c.AfterFunc(d, func() { close(fired) })
	defer stop()
	select {
	case <-fired:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
