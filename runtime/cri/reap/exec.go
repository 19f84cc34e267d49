package reap

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// runtimeSlack is what the runtime's deadline has beyond ours: it would kill only the first process.
	runtimeSlack = time.Second
	// answerSlack is the runtime's time to respond after a command was killed.
	answerSlack = 2 * time.Second
)

// Exec runs a command in a container by ExecSync. Past the timeout, and if ctx ends, all its processes are killed; the
// error is DeadlineExceeded then, or the context's. A timeout of 0 sets no timeout: with Drain, the command ends 10 s
// after its first process at the latest, or with ErrLost after a minute if the process was too short-lived to be seen.
func (r *Reaper) Exec(ctx context.Context, rt Execer, id string, command []string, timeout time.Duration, kind Kind) (
	*runtimeapi.ExecSyncResponse, error,
) {
	req := &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: seconds(timeout)}
	if r == nil {
		return rt.ExecSync(ctx, req)
	}
	s, err := r.Begin(ctx, id, command, kind)
	if err != nil {
		return nil, err
	}
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	var late, lost atomic.Bool
	if s != nil && timeout == 0 && kind.Drain {
		s.onLost(func() {
			lost.Store(true)
			cancel()
		})
	}
	if timeout > 0 {
		within := timeout
		if s != nil {
			within += runtimeSlack
			stop := r.o.Clock.AfterFunc(timeout, func() {
				late.Store(true)
				s.Kill()
			})
			defer stop()
		}
		req.Timeout = seconds(within)
		call, cancel = context.WithTimeout(call, within+answerSlack)
		defer cancel()
	}
	resp, err := rt.ExecSync(call, req)
	switch {
	case late.Load():
		s.Kill() // waits for what the timer has begun
		return nil, status.Errorf(codes.DeadlineExceeded, "the command did not end within %s", timeout)
	case lost.Load():
		s.Kill() // the runtime may start it all the same
		return nil, ErrLost
	case err != nil && s.begins(err):
		s.Kill()
	default:
		s.Keep()
	}
	return resp, err
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// begins reports whether the runtime may have a process of a command whose call has failed. A runtime that refuses a
// command starts none.
func (s *Session) begins(err error) bool {
	found, _ := s.Known()
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Canceled, codes.Unavailable:
		return true
	}
	return found
}
