package query

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/journalet/journalet/bus"
)

const (
	// verifyWait is how long one request waits for the end of a check: most journals are checked by then.
	verifyWait = 50 * time.Millisecond
	// verifyPoll is the client's pause between two requests.
	verifyPoll = 200 * time.Millisecond
	// verifyKept is how long a check runs, and its report is kept, after the last request for it.
	verifyKept = 30 * time.Second
	// maxReports bounds the reports that are kept.
	maxReports = 8
)

// checks are the checks of the whole journal. At most one runs: requests that come meanwhile join it. A client polls,
// because a request has one response: for more of them the server of NATS would have to keep where they go.
type checks struct {
	mu   sync.Mutex
	last uint64 // id of the newest check
	all  []*check
}

// check is one check of the whole journal.
type check struct {
	id          uint64
	done, total atomic.Uint64
	cancel      context.CancelFunc
	idle        *time.Timer // cancels and forgets it

	ended  chan struct{}
	report *bus.VerifyReport
	err    error
}

// verify joins or starts a check, or, with an id, continues to wait for that one.
func (s *server) verify(ctx context.Context, q VerifyRequest) (*VerifyResponse, error) {
	c := s.check(q.Check)
	if c == nil {
		return nil, notFound("check %d of the journal not found: nobody has requested it for %s; begin again", q.Check,
			verifyKept)
	}
	select {
	case <-c.ended:
	case <-time.After(verifyWait):
		return &VerifyResponse{Check: c.id, Done: c.done.Load(), Total: c.total.Load()}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.err != nil {
		return nil, c.err
	}
	return &VerifyResponse{Check: c.id, Done: c.report.Records, Total: c.report.Records, Report: c.report}, nil
}

// check returns the check with an id. For 0 it returns the running check, and starts a check if none runs.
func (s *server) check(id uint64) *check {
	s.checks.mu.Lock()
	defer s.checks.mu.Unlock()
	for _, c := range s.checks.all {
		if c.id == id || id == 0 && !c.hasEnded() {
			c.idle.Reset(verifyKept)
			return c
		}
	}
	if id != 0 || s.ctx.Err() != nil {
		return nil
	}
	return s.startCheck()
}

func (c *check) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// startCheck needs the lock of checks.
func (s *server) startCheck() *check {
	ctx, cancel := context.WithTimeout(s.ctx, longTimeout)
	s.checks.last++
	c := &check{id: s.checks.last, cancel: cancel, ended: make(chan struct{})}
	c.idle = time.AfterFunc(verifyKept, func() { s.forget(c) })
	if len(s.checks.all) == maxReports {
		s.checks.all[0].idle.Stop() // it has ended: only the newest may run
		s.checks.all = s.checks.all[1:]
	}
	s.checks.all = append(s.checks.all, c)
	s.working.Go(func() {
		defer cancel()
		defer close(c.ended)
		report, err := s.Journal.Verify(ctx, func(done, total uint64) {
			c.done.Store(done)
			c.total.Store(total)
		})
		c.report, c.err = &report, err
	})
	return c
}

// forget cancels a check that nobody waits for.
func (s *server) forget(c *check) {
	c.cancel()
	s.checks.mu.Lock()
	defer s.checks.mu.Unlock()
	for i, x := range s.checks.all {
		if x == c {
			s.checks.all = append(s.checks.all[:i], s.checks.all[i+1:]...)
			return
		}
	}
}

// stop stops the timers of all checks. The checks themselves end with the server's context.
func (k *checks) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.all {
		c.idle.Stop()
	}
}
