package sim

import (
	"context"
	"maps"
	"path"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Fault changes what calls of one method do. Of several that match, only the one injected first applies: with Hang the
// call hangs, else it fails with Err. With AfterEffect it is performed first and the fault keeps the response from its
// caller: the outcome that an agent must treat as in doubt.
type Fault struct {
	// Method is the bare name of a CRI call ("StopContainer"); empty means every method.
	Method string
	// Match narrows the fault to some requests; nil matches all. It is called outside of all locks, possibly at the
	// same time for several calls; for a stream req is nil. It must not call Crash, Restart or Close.
	Match func(req any) bool
	// Hang holds the call until its caller gives up (its context's error), the fault is removed (the call continues), or
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
}

type armedFault struct {
	Fault
	left    int           // of Times
	removed chan struct{} // closed when it is removed
}

// Inject arms a fault and returns what removes it again, which also releases the calls it holds. It panics beyond
// maxFaults armed faults: a test that arms so many has lost count.
func (r *Runtime) Inject(f Fault) (remove func()) {
	a := &armedFault{Fault: f, left: f.Times, removed: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faults.armed) >= maxFaults {
		panic("sim: too many faults armed; remove those no longer needed")
	}
	r.faults.armed = append(r.faults.armed, a)
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.disarm(a)
		close(a.removed)
	})
}

// disarm takes a fault off the table; calls that it holds stay held. r.mu is held.
func (r *Runtime) disarm(a *armedFault) {
	r.faults.armed = slices.DeleteFunc(r.faults.armed, func(b *armedFault) bool { return a == b })
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

// pick counts the call and returns the fault that applies to it, nil for none, using up one of its times.
func (r *Runtime) pick(method string, req any) *armedFault {
	r.mu.Lock()
	r.faults.calls[method]++
	candidates := slices.Clone(r.faults.armed)
	r.mu.Unlock()
	for _, a := range candidates {
		if (a.Method == "" || a.Method == method) && (a.Match == nil || a.Match(req)) && r.take(a) {
			return a
		}
	}
	return nil
}

// take uses up one time of a fault; false if another call was faster or the fault was removed.
func (r *Runtime) take(a *armedFault) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.faults.armed, a) {
		return false
	}
	if a.left--; a.left == 0 {
		r.disarm(a)
	}
	return true
}

// strike lets the fault happen to a call, before it is performed or after it.
func (a *armedFault) strike(ctx context.Context, after bool) error {
	switch {
	case a == nil || a.AfterEffect != after:
		return nil
	case !a.Hang:
		return a.Err
	}
	select {
	case <-a.removed:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (r *Runtime) interceptUnary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	a := r.pick(path.Base(info.FullMethod), req)
	if err := a.strike(ctx, false); err != nil {
		return nil, err
	}
	resp, err := next(ctx, req)
	if err := a.strike(ctx, true); err != nil {
		return nil, err
	}
	return resp, err
}

func (r *Runtime) interceptStream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	if err := r.pick(path.Base(info.FullMethod), nil).strike(ss.Context(), false); err != nil {
		return err
	}
	return next(srv, ss)
}
