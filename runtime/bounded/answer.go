package bounded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNoAnswer means that a file system did not answer in time: its server is away.
var ErrNoAnswer = errors.New("the file system does not answer")

// Answers are system calls on file systems whose servers may be away. Such a call blocks its thread, and nothing ends
// it before the server is back. The zero value is ready for use.
type Answers struct {
	mu      sync.Mutex
	pending map[string]*pending
}

// pending is a call that has not returned. ended is closed when it has; late: its caller waits no longer.
type pending struct {
	ended chan struct{}
	late  bool
}

// begin notes a call, after a call of the same key that is under way. It returns ErrNoAnswer at once if that call is
// late.
func (a *Answers) begin(ctx context.Context, key string) (*pending, error) {
	for {
		a.mu.Lock()
		before := a.pending[key]
		if before == nil {
			if a.pending == nil {
				a.pending = map[string]*pending{}
			}
			p := &pending{ended: make(chan struct{})}
			a.pending[key] = p
			a.mu.Unlock()
			return p, nil
		}
		late := before.late
		a.mu.Unlock()
		if late {
			return nil, fmt.Errorf("%w: an earlier call has not returned", ErrNoAnswer)
		}
		select {
		case <-before.ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// AnswerTimeout bounds what is read in a volume whose server may be away, on the way to the start of a container and
// for statistics.
const AnswerTimeout = 10 * time.Second

// Within performs f on a goroutine of its own and returns its result, or ErrNoAnswer if it takes longer than timeout.
// Calls of one key are performed one after the other, and while one is late no other begins: so at most one thread a
// key is blocked. f may return long after Within.
func Within[T any](ctx context.Context, a *Answers, key string, timeout time.Duration, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w within %s", ErrNoAnswer, timeout))
	defer cancel()
	p, err := a.begin(ctx, key)
	if err != nil {
		return none, cmp.Or(context.Cause(ctx), err)
	}
	done := make(chan result, 1)
	go func() {
		var r result
		r.value, r.err = f()
		a.mu.Lock()
		delete(a.pending, key)
		close(p.ended)
		a.mu.Unlock()
		done <- r
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		a.mu.Lock()
		p.late = true
		a.mu.Unlock()
		return none, context.Cause(ctx)
	}
}
