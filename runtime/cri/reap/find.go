package reap

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// seek searches for the session's first process and moves it into a cgroup of the session; s.mu is held.
func (s *Session) seek() {
	t := s.r.o.Table
	s.none = false
	dir, err := t.Group(s.c.init.PID)
	if err != nil || !s.alive(s.c.init) {
		return
	}
	pids, err := t.Members(dir, false)
	if err != nil {
		return
	}
	var found []Process
	for _, pid := range pids {
		if s.older[pid] {
			continue
		}
		p, err := t.Process(pid)
		switch {
		case err != nil || p.Dead:
		case p.Start+1 < s.begun || pid == s.c.init.PID: // the clocks differ by less than a tick
			s.older[pid] = true
		case s.fromOutside(p, dir):
			found = append(found, p)
		}
	}
	s.none = len(found) == 0 && s.c.own // in the host's namespace a program that another one has replaced is not seen
	if first, ok := s.choose(found); ok {
		s.first, s.dir = first, dir
		s.members[first.PID] = first
		s.enclose()
	}
}

// fromOutside reports whether the runtime has put a process into the container: its parent is not in the container's
// PID namespace, where each process of the application has one. In the host's namespace, orphans become children of the
// runtime's shim, as the first process is: only a parent that is neither the shim nor of the pod proves it, which the
// process has until its program begins. After that its arguments do.
func (s *Session) fromOutside(p Process, dir string) bool {
	t := s.r.o.Table
	if at, err := t.Namespace(p.PID); err != nil || at != s.c.namespace {
		return false
	}
	above, err := t.Namespace(p.Parent)
	if err != nil {
		return false
	}
	if s.c.own {
		return above != s.c.namespace
	}
	switch {
	case p.Session != p.PID || p.Parent <= 1:
		return false
	case p.Parent == s.c.init.Parent:
		return s.runs(p)
	}
	at, err := t.Group(p.Parent)
	return err != nil || !strings.HasPrefix(at+"/", filepath.Dir(dir)+"/")
}

// choose returns the session's own among processes that were put into the container since its begin. If that isn't the
// only one, or another session waits for its own, the arguments decide; if these cannot, none is the session's.
func (s *Session) choose(found []Process) (Process, bool) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	found = slices.DeleteFunc(found, func(p Process) bool { return s.c.firsts[p] })
	others := 0
	for o := range s.c.waiting {
		switch {
		case o == s:
		case slices.Equal(o.command, s.command):
			return Process{}, false
		default:
			others++
		}
	}
	if len(found) > 1 || others > 0 {
		found = slices.DeleteFunc(found, func(p Process) bool { return !s.runs(p) })
	}
	if len(found) != 1 {
		return Process{}, false
	}
	s.c.firsts[found[0]] = true
	delete(s.c.waiting, s)
	return found[0], true
}

// runs reports whether a process has the session's arguments. The kernel puts an interpreter before a script's
// arguments.
func (s *Session) runs(p Process) bool {
	args, err := s.r.o.Table.Command(p.PID)
	n := len(s.command)
	if err != nil || n == 0 || len(args) < n {
		return false
	}
	args = args[len(args)-n:]
	return path.Base(args[0]) == path.Base(s.command[0]) && slices.Equal(args[1:], s.command[1:])
}

// enclose gives the session a cgroup with its first process and all that this has started so far; s.mu is held. Where
// that is impossible, its processes are followed.
func (s *Session) enclose() {
	t := s.r.o.Table
	group := filepath.Join(s.dir, s.r.name())
	if err := t.Create(group); err != nil {
		s.r.o.Log.Debug("a command gets no cgroup", "cgroup", group, "err", err)
		return
	}
	if err := t.Enter(group, s.first.PID); err != nil {
		s.r.o.Log.Debug("a command cannot be moved into a cgroup", "cgroup", group, "err", err)
		_ = t.Remove(group) // it is empty
		return
	}
	s.group = group
	// A process that is moved after its child was born is found again by that child's parent or session.
	for s.follow() {
		for _, p := range s.members {
			if p.PID != s.first.PID {
				_ = t.Enter(group, p.PID) // it has ended
			}
		}
	}
}

// follow adds the processes of the container that members have started, and reports whether there were any; s.mu is
// held. A child's parent is alive when the child names it. The session of a living process is no other's.
func (s *Session) follow() bool {
	t := s.r.o.Table
	pids, err := t.Members(s.dir, true)
	if err != nil {
		return false
	}
	found := false
	for _, pid := range pids {
		if s.older[pid] {
			continue
		}
		if _, ok := s.members[pid]; ok {
			continue
		}
		p, err := t.Process(pid)
		if err != nil {
			continue
		}
		if p.Start+1 < s.begun {
			s.older[pid] = true
			continue
		}
		if parent, ok := s.members[p.Parent]; (ok && s.alive(parent)) || s.shares(p) {
			s.members[pid] = p
			found = true
		}
	}
	return found
}

// shares reports whether a process is in the session (setsid) of the first process, which a living member holds.
func (s *Session) shares(p Process) bool {
	if p.Session != s.first.PID {
		return false
	}
	if s.alive(s.first) {
		return true
	}
	for _, m := range s.members {
		if m.Session == s.first.PID && s.alive(m) {
			return true
		}
	}
	return false
}
