package reap

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// checkEarly is how often a session that is watched from its begin is inspected for earlyFor: runc needs some 5 ms
	// between a process's entry into the container and its program's begin.
	checkEarly = time.Millisecond
	earlyFor   = 200 * time.Millisecond
	// checkLate is when a session that isn't watched is late: most commands of probes have ended.
	checkLate = 250 * time.Millisecond
	// checkMost bounds the pause between two inspections, which grows by a half.
	checkMost = time.Second
	// drainTime is how long the output of a command without a deadline may stay open after its first process has ended.
	drainTime = 10 * time.Second
	// lostTime is how long no first process is seen of a command without a deadline until it counts as ended, unseen. No
	// runtime needs as long to start one.
	lostTime = time.Minute
)

// ErrLeft means that processes of the last run of a command could not be killed (state D), so it does not run again.
var ErrLeft = errors.New("processes of the last run of the command cannot be killed: " +
	"they wait for a device or a file server; `ps` shows them in state D")

// ErrLost means that a command without a deadline has ended, how is not known, and something has its output open.
var ErrLost = errors.New("the command has ended, and what it left in the background keeps its output open and cannot " +
	"be found: redirect the output of that to a file or to /dev/null")

// Kind says how a session is inspected.
type Kind struct {
	// Always watches the session from its begin: it is rare, or a person's. A probe's is watched if others of its
	// container were late.
	Always bool
	// Drain ends the session some time after its first process, although its output is open.
	Drain bool
	// Single refuses the session while processes of one with the same command cannot be killed.
	Single bool
}

// Session is a command from its begin to its end. Of a nil one nothing is known. Its methods may be called
// concurrently; the first of Keep and Kill counts.
type Session struct {
	r       *Reaper
	c       *container
	command []string
	kind    Kind
	begun   uint64 // ticks
	watched bool   // from its begin
	turn    bool   // it holds the container's turn; guarded by mu

	mu     sync.Mutex
	over   bool
	lost   func()        // ends the runtime's call for ErrLost; nil for none
	passed time.Duration // since the begin
	stop   func() bool   // the next inspection
	// older are processes that were there before the session.
	older map[int]bool
	// first is the first process, in the container's cgroup dir; group is the session's own, "" if it has none.
	first      Process
	dir, group string
	// none is set while no process of the container can be the first one, since it would be seen.
	none bool
	// members are the processes that were seen of a session without a cgroup.
	members map[int]Process
	gone    time.Duration // since when the first process has ended
}

// Begin begins a session, before the runtime is called. It returns nil if the container's processes cannot be seen. The
// caller ends what it returns. A session that is watched waits up to a second until the one before it in the same
// container has started: which process is whose is known by their order.
func (r *Reaper) Begin(ctx context.Context, container string, command []string, kind Kind) (*Session, error) {
	if r == nil {
		return nil, nil
	}
	c := r.find(ctx, container)
	if c == nil {
		return nil, nil
	}
	if kind.Single && r.hasLeft(c, command) {
		return nil, ErrLeft
	}
	s := &Session{r: r, c: c, command: command, kind: kind, older: map[int]bool{}, members: map[int]Process{}}
	r.mu.Lock()
	s.watched = kind.Always || c.watch > 0
	r.mu.Unlock()
	if s.watched {
		s.turn = s.await(ctx)
	}
	s.begun = r.o.Table.Now()
	r.mu.Lock()
	c.waiting[s] = true
	r.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched {
		s.next(checkEarly)
	} else {
		s.next(checkLate)
	}
	return s, nil
}

// onLost has f called when the first process can no longer be seen.
func (s *Session) onLost(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = f
}

// await takes the container's turn; false: it was not free in time.
func (s *Session) await(ctx context.Context) bool {
	select {
	case s.c.turn <- struct{}{}:
		return true
	default:
	}
	late := make(chan struct{})
	stop := s.r.o.Clock.AfterFunc(maxTurn, func() { close(late) })
	defer stop()
	select {
	case s.c.turn <- struct{}{}:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// pass gives the turn to the next session; s.mu is held.
func (s *Session) pass() {
	if s.turn {
		s.turn = false
		<-s.c.turn
	}
}

// next inspects it again after a pause; s.mu is held.
func (s *Session) next(pause time.Duration) {
	s.stop = s.r.o.Clock.AfterFunc(pause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.over {
			return
		}
		s.passed += pause
		if s.check(); s.over {
			return
		}
		switch {
		case (s.first.PID == 0 || s.group == "") && s.passed < earlyFor:
			s.next(checkEarly)
		case s.first.PID == 0:
			s.next(min(max(pause+pause/2, checkEarly), checkMost))
		case s.kind.Drain || s.group == "":
			s.next(checkMost)
		}
	})
}

// check inspects a session once; s.mu is held.
func (s *Session) check() {
	if s.first.PID == 0 {
		s.seek()
		if s.first.PID == 0 {
			if s.passed >= maxTurn {
				s.pass()
			}
			if s.passed >= lostTime && s.lost != nil && s.none {
				s.lost()
			}
			return
		}
		s.pass()
	}
	if s.group == "" {
		s.follow()
	}
	if !s.kind.Drain || s.alive(s.first) {
		return
	}
	if s.gone == 0 {
		s.gone = s.passed
	}
	if s.passed-s.gone >= drainTime {
		s.r.o.Log.Info("the output of a command stays open after its end; ending what it has started",
			"container", s.c.id)
		s.end(true)
	}
}

// alive reports whether a process has not ended.
func (s *Session) alive(p Process) bool {
	now, err := s.r.o.Table.Process(p.PID)
	return err == nil && now.same(p) && !now.Dead
}

// hasLeft reports whether a session with this command could not be ended and still has processes.
func (r *Reaper) hasLeft(c *container, command []string) bool {
	r.mu.Lock()
	left := slices.Clone(c.left)
	r.mu.Unlock()
	found := false
	for _, s := range left {
		s.mu.Lock()
		over := s.count() == 0
		if over && s.group != "" {
			s.tidy(maxTidy)
		}
		s.mu.Unlock()
		if over {
			r.mu.Lock()
			c.left = slices.DeleteFunc(c.left, func(t *Session) bool { return t == s })
			r.mu.Unlock()
		} else if slices.Equal(s.command, command) {
			found = true
		}
	}
	return found
}
