package sim

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Fault changes what calls of one method do. Of several that match, the one injected first applies, alone. In order:
// the call waits Delay by the runtime's clock, then hangs if Hang says so, then fails with Err; if none of them ended
// it, it is performed as usual. With AfterEffect the call is performed first, and delay, hang and error then keep the
// answer from its caller: the outcome that an agent must count as in doubt.
type Fault struct {
	// Method is the bare name of a CRI call ("StopContainer"); empty means every method.
	Method string
	// Match narrows the fault to some requests; nil matches all. It is called outside of all locks, possibly at the
	// same time for several calls; for a stream req is nil. It must not call Crash, Restart or Close.
	Match func(req any) bool
	// Delay is how long the call waits first, by the clock of Options.
	Delay time.Duration
	// Hang holds the call until its caller gives up (its context's error), the fault is removed (the call goes on), or
	// the runtime crashes.
	Hang bool
	// Err is what the call fails with; use google.golang.org/grpc/status for a code other than Unknown.
	Err error
	// AfterEffect performs the call before the fault strikes.
	AfterEffect bool
	// Times is how often the fault applies; 0 means until it is removed.
	Times int
}

type faultTable struct {
	armed []*armedFault
	calls map[string]int
	hangs int
}

type armedFault struct {
	Fault
	left    int
	removed chan struct{}
}

// Inject arms a fault and returns what removes it again, which also releases the calls it holds. It panics beyond
// maxFaults armed faults: a test that makes so many has lost count.
func (r *Runtime) Inject(f Fault) (remove func()) {
	a := &armedFault{Fault: f, left: f.Times, removed: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faults.armed) >= maxFaults {
		panic("sim: too many faults armed; remove those no longer needed or call Clear")
	}
	r.faults.armed = append(r.faults.armed, a)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.disarm(a)
	}
}

// Clear removes all faults and releases every call they hold; released calls go on as usual.
func (r *Runtime) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range slices.Clone(r.faults.armed) {
		r.disarm(a)
	}
}

// Calls counts, by bare method name, the calls that reached the runtime, faulty ones included.
func (r *Runtime) Calls() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.faults.calls)
}

// ResetCalls sets all counters to zero.
func (r *Runtime) ResetCalls() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.faults.calls)
}

// Hanging is the number of calls held by faults right now.
func (r *Runtime) Hanging() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faults.hangs
}

// disarm removes a fault; a spent one keeps its hold on the call that spent it until Clear. r.mu is held.
func (r *Runtime) disarm(a *armedFault) {
	r.faults.armed = slices.DeleteFunc(r.faults.armed, func(b *armedFault) bool { return a == b })
	select {
	case <-a.removed:
	default:
		close(a.removed)
	}
}

// pick counts the call and finds the fault that applies to it, using up one of its times.
func (r *Runtime) pick(method string, req any) *armedFault {
	r.mu.Lock()
	r.faults.calls[method]++
	candidates := slices.Clone(r.faults.armed)
	r.mu.Unlock()
	for _, a := range candidates {
		if a.Method != "" && a.Method != method {
			continue
		}
		if a.Match != nil && !a.Match(req) {
			continue
		}
		if r.take(a) {
			return a
		}
	}
	return nil
}

// take uses up one time of a fault; false if another call was faster or the fault is gone.
func (r *Runtime) take(a *armedFault) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-a.removed:
		return false
	default:
	}
	if a.Times == 0 {
		return true
	}
	if a.left == 0 {
		return false
	}
	// A spent fault stays in the table so that Clear can still release the call it holds; see dropSpent.
	a.left--
	return true
}

// dropSpent forgets a fault that has no times left and holds no call any more.
func (r *Runtime) dropSpent(a *armedFault) {
	if a.Times == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.left == 0 {
		r.faults.armed = slices.DeleteFunc(r.faults.armed, func(b *armedFault) bool { return a == b && !a.Hang })
	}
}

// strike lets the fault happen to a call.
func (r *Runtime) strike(ctx context.Context, a *armedFault) error {
	defer r.dropSpent(a)
	if a.Delay > 0 {
		if err := r.wait(ctx, a.Delay, a.removed); err != nil {
			return err
		}
		select {
		case <-a.removed:
			return nil
		default:
		}
	}
	if a.Hang {
		r.countHang(1)
		defer r.countHang(-1)
		select {
		case <-a.removed:
			return nil
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	return a.Err
}

func (r *Runtime) countHang(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults.hangs += n
}

// wait lets d pass by the clock, or until stop is closed (nil stop: never), or fails with the context.
func (r *Runtime) wait(ctx context.Context, d time.Duration, stop <-chan struct{}) error {
	if d <= 0 {
		return nil
	}
	fired := make(chan struct{})
	t := r.clock.AfterFunc(d, func() { close(fired) })
	defer t.Stop()
	select {
	case <-fired:
		return nil
	case <-stop:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (r *Runtime) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	a := r.pick(path.Base(info.FullMethod), req)
	if a == nil {
		resp, err := next(ctx, req)
		return resp, grpcError(err)
	}
	if a.AfterEffect {
		resp, err := next(ctx, req)
		if ferr := r.strike(ctx, a); ferr != nil {
			return nil, ferr
		}
		return resp, grpcError(err)
	}
	if err := r.strike(ctx, a); err != nil {
		return nil, err
	}
	resp, err := next(ctx, req)
	return resp, grpcError(err)
}

func (r *Runtime) interceptStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if a := r.pick(path.Base(info.FullMethod), nil); a != nil && !a.AfterEffect {
		if err := r.strike(ss.Context(), a); err != nil {
			return err
		}
	}
	return grpcError(next(srv, ss))
}

// grpcError gives bare context errors their code and leaves all else.
func grpcError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return err
}
