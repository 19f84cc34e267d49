package clock

import (
	"context"
	"time"
)

// Clock is a source of time. Its methods may be called by any goroutine.
type Clock interface {
	// Now returns the time of day. Only the real clock's also has a monotonic reading.
	Now() time.Time
	// AfterFunc calls f once, d from now; at once if d is 0 or less. stop reports whether it prevented the call. f must
	// not block.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Real is the machine's clock.
type Real struct{}

// Now returns time.Now.
func (Real) Now() time.Time { return time.Now() }

// AfterFunc calls time.AfterFunc.
func (Real) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// Virtual is the clock of a simulation that runs drivers as coroutines: a driver that waits must give way to the
// others, and a context's timer of the machine's clock would never end in virtual time.
type Virtual interface {
	Clock
	// Wait works as the function Wait does.
	Wait(ctx context.Context, d time.Duration) error
	// WithTimeout works as context.WithTimeout does.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// WithTimeout works as context.WithTimeout does; a Virtual clock has its own.
func WithTimeout(ctx context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	if v, ok := c.(Virtual); ok {
		return v.WithTimeout(ctx, d)
	}
	return context.WithTimeout(ctx, d)
}

// Wait waits for d by the clock, or returns the context's error.
func Wait(ctx context.Context, c Clock, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if v, ok := c.(Virtual); ok {
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
