package reap

import (
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killRounds and killPause bound how long the agent tries to kill a session before it counts as unkillable: a
	// second.
	killRounds = 100
	killPause  = 10 * time.Millisecond
	// lingerTime is how long the agent searches for a process that the runtime may start after its client has gone.
	lingerTime  = 5 * time.Second
	lingerPause = 20 * time.Millisecond
	// tidyPause and maxTidy bound the tries to remove a session's cgroup: the kernel may need a moment.
	tidyPause = time.Second
	maxTidy   = 5
)

var errAlive = errors.New("processes are alive after SIGKILL")

// Keep ends a session whose command has ended by itself. What it has left in the background on purpose stays, in the
// container's cgroup.
func (s *Session) Keep() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(false)
}

// Kill ends a session and all its processes. It returns when none is left, or after a second. A first process that the
// runtime starts only now is ended when it is seen.
func (s *Session) Kill() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(true)
}

// Known reports whether the session's first process was found, and whether it is alive.
func (s *Session) Known() (found, alive bool) {
	if s == nil {
		return false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.PID == 0 && !s.over {
		s.check()
	}
	return s.first.PID != 0, s.first.PID != 0 && s.alive(s.first)
}

// end ends the session; s.mu is held.
func (s *Session) end(kill bool) {
	if s.over {
		return
	}
	s.over = true
	s.stop()
	if kill && s.first.PID == 0 {
		s.seek()
	}
	if kill && s.first.PID == 0 && s.watched && s.alive(s.c.init) {
		s.linger(0)
		return
	}
	s.pass()
	defer s.settle(kill)
	switch {
	case s.first.PID == 0:
	case kill:
		s.kill()
	case s.group != "":
		s.release()
	}
}

// unlist has no other session reckon with this one.
func (s *Session) unlist() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	delete(s.c.waiting, s)
}

// settle forgets the session; s.mu is held.
func (s *Session) settle(late bool) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	delete(s.c.waiting, s)
	delete(s.c.firsts, s.first)
	switch {
	case s.kind.Always:
	case late:
		s.c.watch = watchFirst
	case s.c.watch > 0:
		s.c.watch--
	}
}

// linger searches for the first process of a session that is over, and kills it; s.mu is held.
func (s *Session) linger(so time.Duration) {
	s.r.o.Clock.AfterFunc(lingerPause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.seek(); s.first.PID == 0 && so < lingerTime && s.alive(s.c.init) {
			if so > maxTurn {
				s.pass()
				s.unlist()
			}
			s.linger(so + lingerPause)
			return
		}
		s.pass()
		if s.first.PID != 0 {
			s.kill()
		}
		s.settle(true)
	})
}

// kill kills all processes of the session; s.mu is held.
func (s *Session) kill() {
	err := error(nil)
	if s.group != "" {
		err = s.r.endGroup(s.group)
	}
	// A runtime may have moved the first process out again.
	if s.group == "" || s.alive(s.first) {
		err = s.killTree()
	}
	if err == nil {
		return
	}
	s.r.o.Log.Warn("a command in a container could not be ended", "container", s.c.id, "processes", s.count(), "err", err)
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.c.left = append(s.c.left, s)
}

// count returns how many processes of the session are alive; s.mu is held.
func (s *Session) count() int {
	if s.group != "" {
		if pids, err := s.r.o.Table.Members(s.group, true); err == nil {
			return len(pids)
		}
	}
	n := 0
	for _, p := range s.members {
		if s.alive(p) {
			n++
		}
	}
	return n
}

// killTree kills the members of a session without a cgroup. They are stopped first, so that none starts another while
// they are found.
func (s *Session) killTree() error {
	t := s.r.o.Table
	for again := true; again; again = s.follow() {
		for _, p := range s.members {
			_ = t.Stop(p) // it has ended
		}
	}
	for range killRounds {
		living := 0
		for _, p := range s.members {
			if s.alive(p) {
				living++
				_ = t.Kill(p) // counted
			}
		}
		if living == 0 {
			return nil
		}
		s.r.pause(killPause)
	}
	return errAlive
}

// endGroup kills all processes of a session's cgroup and removes it.
func (r *Reaper) endGroup(group string) error {
	t := r.o.Table
	var err error
	for range killRounds {
		if err = t.KillGroup(group); errors.Is(err, unix.ENOENT) {
			return nil // it went with its container
		}
		pids, merr := t.Members(group, true)
		if errors.Is(merr, unix.ENOENT) {
			return nil
		}
		if merr == nil && len(pids) == 0 {
			if err = t.Remove(group); err == nil {
				return nil
			}
		} else {
			err = errors.Join(errAlive, err)
		}
		r.pause(killPause)
	}
	return err
}

// release gives the processes of a session back to the container, and removes the session's cgroup; s.mu is held.
func (s *Session) release() {
	t := s.r.o.Table
	for range killRounds {
		pids, err := t.Members(s.group, true)
		if err != nil || len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			_ = t.Enter(filepath.Dir(s.group), pid) // it has ended, or it is there in the next round
		}
	}
	s.tidy(0)
}

// tidy removes the session's cgroup; s.mu is held.
func (s *Session) tidy(tries int) {
	err := s.r.o.Table.Remove(s.group)
	switch {
	case err == nil:
	case tries >= maxTidy:
		s.r.o.Log.Warn("the cgroup of a command stays until its container ends", "cgroup", s.group, "err", err)
	default:
		s.r.o.Clock.AfterFunc(tidyPause, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tidy(tries + 1)
		})
	}
}

// pause waits by the clock.
func (r *Reaper) pause(d time.Duration) {
	over := make(chan struct{})
	r.o.Clock.AfterFunc(d, func() { close(over) })
	<-over
}
