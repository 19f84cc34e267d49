package reap_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/cri/reap"
	"github.com/journalet/journalet/test/must"
)

const (
	dir   = "/pod/container"
	shim  = 10
	init1 = 11 // the container's first process
)

// proc is a process of a world.
type proc struct {
	reap.Process
	namespace, group string
	args             []string
	// unkillable is state D.
	unkillable bool
}

// world is a machine with one container, a runtime and a clock. Nothing happens in it by itself.
type world struct {
	t      *testing.T
	now    time.Time
	timers []*timer
	procs  map[int]*proc
	groups map[string]bool
	reads  int  // calls that read of the machine
	noMake bool // no cgroup can be created
	// exec is the runtime's ExecSync.
	exec func(ctx context.Context) (*runtimeapi.ExecSyncResponse, error)
	r    *reap.Reaper
}

type timer struct {
	at   time.Time
	f    func()
	done bool
}

// newWorld returns one whose container has the first process init1.
func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Unix(1000, 0), procs: map[int]*proc{}, groups: map[string]bool{dir: true}}
	w.add(shim, 1, "host", "/system")
	w.add(init1, shim, "inner", dir)
	w.advance(time.Second)
	w.r = w.run("a")
	return w
}

func (w *world) run(name string) *reap.Reaper {
	return reap.New(reap.Options{Agent: "agent", Run: name, Runtime: w, Table: w, Clock: worldClock{w}})
}

// add adds a process that is in the session of its parent.
func (w *world) add(pid, parent int, namespace, group string, args ...string) *proc {
	session := pid
	if p := w.procs[parent]; p != nil && p.namespace == namespace {
		session = p.Session
	}
	p := &proc{
		Process:   reap.Process{PID: pid, Parent: parent, Session: session, Start: w.Now()},
		namespace: namespace, group: group, args: args,
	}
	w.procs[pid] = p
	return p
}

// fork adds a child in the cgroup of its parent.
func (w *world) fork(pid, parent int) *proc {
	return w.add(pid, parent, w.procs[parent].namespace, w.procs[parent].group)
}

// end ends a process; the container's first one inherits its children.
func (w *world) end(pid int) {
	delete(w.procs, pid)
	for _, p := range w.procs {
		if p.Parent == pid {
			p.Parent = init1
		}
	}
}

// advance lets time pass, and timers fire.
func (w *world) advance(d time.Duration) {
	until := w.now.Add(d)
	for {
		i := slices.IndexFunc(w.timers, func(t *timer) bool { return !t.done && !t.at.After(until) })
		for j, t := range w.timers {
			if i >= 0 && !t.done && t.at.Before(w.timers[i].at) {
				i = j
			}
		}
		if i < 0 {
			break
		}
		w.timers[i].done = true
		w.now = w.timers[i].at
		w.timers[i].f()
	}
	w.now = until
}

// worldClock is the clock of a world.
type worldClock struct{ w *world }

func (c worldClock) Now() time.Time { return c.w.now }

// killPause is the pause between two tries to kill. Nothing else happens in it, so it passes at once.
const killPause = 10 * time.Millisecond

func (c worldClock) AfterFunc(d time.Duration, f func()) func() bool {
	if d == killPause {
		c.w.now = c.w.now.Add(d)
		f()
		return func() bool { return false }
	}
	t := &timer{at: c.w.now.Add(d), f: f}
	c.w.timers = append(c.w.timers, t)
	return func() bool { was := t.done; t.done = true; return !was }
}

// Now is in ticks.
func (w *world) Now() uint64 { return uint64(w.now.UnixNano() / 1e7) }

// alive returns the PIDs of the container.
func (w *world) alive() []int {
	pids, err := w.Members(dir, true)
	must.OK(w.t, err)
	slices.Sort(pids)
	return pids
}

func (w *world) wantAlive(pids ...int) {
	w.t.Helper()
	if got := w.alive(); !slices.Equal(got, pids) {
		w.t.Errorf("alive: %v, want %v", got, pids)
	}
}

func (w *world) ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest, ...grpc.CallOption) (
	*runtimeapi.ContainerStatusResponse, error,
) {
	return &runtimeapi.ContainerStatusResponse{Info: map[string]string{"info": fmt.Sprintf(`{"pid":%d}`, init1)}}, nil
}

func (w *world) ExecSync(ctx context.Context, _ *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption) (
	*runtimeapi.ExecSyncResponse, error,
) {
	return w.exec(ctx)
}

func (w *world) Process(pid int) (reap.Process, error) {
	w.reads++
	if p := w.procs[pid]; p != nil {
		return p.Process, nil
	}
	return reap.Process{}, fs.ErrNotExist
}

func (w *world) Namespace(pid int) (string, error) {
	w.reads++
	if p := w.procs[pid]; p != nil {
		return p.namespace, nil
	}
	return "", fs.ErrNotExist
}

func (w *world) Command(pid int) ([]string, error) {
	if p := w.procs[pid]; p != nil {
		return p.args, nil
	}
	return nil, fs.ErrNotExist
}

func (w *world) Group(pid int) (string, error) {
	w.reads++
	if p := w.procs[pid]; p != nil {
		return p.group, nil
	}
	return "", fs.ErrNotExist
}

func (w *world) Members(dir string, below bool) (out []int, err error) {
	w.reads++
	if !w.groups[dir] {
		return nil, fs.ErrNotExist
	}
	for pid, p := range w.procs {
		if p.group == dir || below && strings.HasPrefix(p.group, dir+"/") {
			out = append(out, pid)
		}
	}
	return out, nil
}

func (w *world) Stop(reap.Process) error { return nil }

func (w *world) Kill(p reap.Process) error {
	if q := w.procs[p.PID]; q != nil && q.Start == p.Start && !q.unkillable {
		w.end(p.PID)
	}
	return nil
}

func (w *world) Create(dir string) error {
	if w.noMake {
		return fs.ErrPermission
	}
	w.groups[dir] = true
	return nil
}

func (w *world) Enter(dir string, pid int) error {
	if w.procs[pid] == nil || !w.groups[dir] {
		return fs.ErrNotExist
	}
	w.procs[pid].group = dir
	return nil
}

func (w *world) KillGroup(dir string) error {
	for _, p := range w.procs {
		if p.group == dir && !p.unkillable {
			w.end(p.PID)
		}
	}
	return nil
}

func (w *world) Remove(dir string) error {
	if pids, err := w.Members(dir, true); err != nil || len(pids) > 0 {
		return fs.ErrExist
	}
	delete(w.groups, dir)
	return nil
}

func (w *world) Groups(prefix string) (out []string) {
	for dir := range w.groups {
		if strings.HasPrefix(dir[strings.LastIndexByte(dir, '/')+1:], prefix) {
			out = append(out, dir)
		}
	}
	return out
}

// timedOut reports the error of a command that did not end in time.
func timedOut(err error) bool { return status.Code(err) == codes.DeadlineExceeded }
