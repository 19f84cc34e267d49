package reap_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/cri/reap"
	"github.com/journalet/journalet/test/must"
)

var command = []string{"sh", "-c", "x"}

// probe runs a command with a second of time. start is what happens when the runtime has been called; then the command
// does not end by itself.
func (w *world) probe(start func()) error {
	w.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		start()
		w.advance(time.Second)
		return &runtimeapi.ExecSyncResponse{ExitCode: 137}, nil
	}
	_, err := w.r.Exec(w.t.Context(), w, "c", command, time.Second, reap.Kind{Single: true})
	return err
}

// quick runs n commands that end in time.
func (w *world) quick(n int) {
	w.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		w.advance(100 * time.Millisecond)
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	for range n {
		_, err := w.r.Exec(w.t.Context(), w, "c", command, time.Second, reap.Kind{Single: true})
		must.OK(w.t, err)
		w.advance(time.Second)
	}
}

// enter has the runtime put a process into the container.
func (w *world) enter(pid int, args ...string) {
	w.add(pid, shim, "inner", dir, args...)
}

const step = 5 * time.Millisecond

// families are what a command's first process 20 does until its time is over.
var families = map[string]func(w *world){
	"children":                   func(w *world) { w.fork(21, 20); w.fork(22, 21) },
	"a child of its own session": func(w *world) { w.fork(21, 20).Session = 21 },
	"orphans":                    func(w *world) { w.fork(21, 20); w.fork(22, 21); w.end(21) },
	"a daemon": func(w *world) {
		w.fork(21, 20).Session = 21
		w.fork(22, 21)
		w.end(21)
		w.advance(step)
	},
	"a first process that ends": func(w *world) { w.fork(21, 20); w.advance(step); w.end(20) },
}

func TestNothingIsLeftOfACommandThatTimesOut(t *testing.T) {
	for name, family := range families {
		for _, way := range []string{"watched from its begin", "when it is late", "without cgroups"} {
			w := newWorld(t)
			w.noMake = way == "without cgroups"
			if way == "when it is late" {
				w.quick(3)
			}
			w.advance(time.Second)
			w.fork(12, init1)                                                // the application keeps running
			lost := name == "a daemon" && way != "watched from its begin" || // nothing leads to it when it is searched
				name == "a first process that ends" && way == "when it is late"
			err := w.probe(func() {
				w.advance(step)
				w.enter(20)
				w.advance(step)
				family(w)
				w.advance(100 * time.Millisecond)
				w.fork(13, init1).Session = 13
				w.fork(14, 13)
				w.end(13)
			})
			if !timedOut(err) {
				t.Errorf("%s, %s: %v, want a timeout", name, way, err)
			}
			for pid := 20; pid < 30; pid++ {
				if w.procs[pid] != nil && !lost {
					t.Errorf("%s, %s: process %d is left", name, way, pid)
				}
			}
			if w.procs[init1] == nil || w.procs[12] == nil || w.procs[14] == nil {
				t.Errorf("%s, %s: a process of the application was killed", name, way)
			}
			if left := w.Groups("journalet-"); len(left) > 0 {
				t.Errorf("%s, %s: cgroups are left: %v", name, way, left)
			}
		}
	}
}

func TestACommandThatEndsInTimeKeepsItsBackground(t *testing.T) {
	w := newWorld(t)
	w.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		w.enter(20)
		w.advance(step)
		w.fork(21, 20)
		w.end(20)
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	_, err := w.r.Exec(t.Context(), w, "c", command, time.Second, reap.Kind{})
	must.OK(t, err)
	w.wantAlive(init1, 21)
	if w.procs[21].group != dir || len(w.Groups("journalet-")) > 0 {
		t.Errorf("process 21 is in %s, cgroups of sessions: %v", w.procs[21].group, w.Groups("journalet-"))
	}
}

func TestProbesThatEndInTimeReadNothing(t *testing.T) {
	w := newWorld(t)
	w.quick(3)
	before := w.reads
	w.quick(100)
	if w.reads != before {
		t.Errorf("%d reads of the machine for 100 probes, want 0", w.reads-before)
	}
	// A late one is inspected, and so are those after it.
	if err := w.probe(func() { w.enter(20) }); !timedOut(err) {
		t.Error(err)
	}
	before = w.reads
	w.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		w.advance(step)
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	_, err := w.r.Exec(t.Context(), w, "c", command, time.Second, reap.Kind{})
	must.OK(t, err)
	if w.reads == before {
		t.Error("after a late probe the next is not watched")
	}
}

func TestWhoseAProcessIsMustBeCertain(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(w *world)
		kept []int
	}{
		{"two with other arguments", func(w *world) { w.enter(20, "a"); w.enter(21, "b") }, []int{20, 21}},
		{"one of two has the arguments", func(w *world) { w.enter(20, "a"); w.enter(21, command...) }, []int{20}},
		{"two with the same arguments", func(w *world) { w.enter(20, command...); w.enter(21, command...) }, []int{20, 21}},
		{"a script", func(w *world) { w.enter(20, "b"); w.enter(21, append([]string{"/bin/interpreter"}, command...)...) },
			[]int{20}},
		{"a container in the container", func(w *world) { w.add(20, init1, "innermost", dir+"/x") }, []int{20}},
		{"a container in the container's cgroup", func(w *world) { w.add(20, init1, "innermost", dir); w.fork(21, 20) },
			[]int{20, 21}},
	} {
		w := newWorld(t)
		if err := w.probe(func() { c.do(w) }); !timedOut(err) {
			t.Errorf("%s: %v, want a timeout", c.what, err)
		}
		w.advance(10 * time.Second)
		for pid := 20; pid < 23; pid++ {
			kept := false
			for _, k := range c.kept {
				kept = kept || k == pid
			}
			if (w.procs[pid] != nil) != kept {
				t.Errorf("%s: process %d is there: %t, want %t", c.what, pid, !kept, kept)
			}
		}
	}
}

func TestAReusedNumberIsNoProcessOfTheSession(t *testing.T) {
	w := newWorld(t)
	w.noMake = true
	err := w.probe(func() {
		w.enter(20)
		w.advance(step)
		w.fork(21, 20)
		w.advance(300 * time.Millisecond)
		w.end(20)
		w.end(21)
		w.advance(300 * time.Millisecond)
		w.fork(20, init1).Session = 20 // the application's
		w.fork(22, 20)
	})
	if !timedOut(err) {
		t.Error(err)
	}
	w.wantAlive(init1, 20, 22)
}

func TestAProbeWaitsForTheEndOfTheLastOne(t *testing.T) {
	w := newWorld(t)
	err := w.probe(func() { w.enter(20); w.advance(step); w.fork(21, 20).unkillable = true })
	if !timedOut(err) {
		t.Fatal(err)
	}
	calls := 0
	if err := w.probe(func() { calls++ }); !errors.Is(err, reap.ErrLeft) || calls > 0 {
		t.Errorf("while a process cannot be killed: %v and %d calls", err, calls)
	}
	w.end(21)
	if err := w.probe(func() { calls++; w.enter(22) }); !timedOut(err) || calls != 1 {
		t.Errorf("after its end: %v and %d calls", err, calls)
	}
	w.wantAlive(init1)
}

func TestAProcessThatStartsAfterItsClientHasGoneIsEnded(t *testing.T) {
	w := newWorld(t)
	w.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		return nil, status.Error(codes.Canceled, "the client has gone")
	}
	if _, err := w.r.Exec(t.Context(), w, "c", command, 0, reap.Kind{Always: true}); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	w.advance(500 * time.Millisecond)
	w.enter(20)
	w.fork(21, 20)
	w.advance(time.Second)
	w.wantAlive(init1)
}

func TestACommandWithoutADeadlineEndsAfterItsFirstProcess(t *testing.T) {
	w := newWorld(t)
	w.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		w.enter(20)
		w.advance(step)
		w.fork(21, 20)
		w.advance(time.Hour)
		if w.procs[21] == nil {
			t.Error("it ended while its first process ran")
		}
		w.end(20)
		w.advance(9 * time.Second)
		if w.procs[21] == nil {
			t.Error("its output had less than 10 s")
		}
		w.advance(3 * time.Second)
		return &runtimeapi.ExecSyncResponse{ExitCode: 3}, nil
	}
	resp, err := w.r.Exec(t.Context(), w, "c", command, 0, reap.Kind{Always: true, Drain: true})
	must.OK(t, err)
	if w.wantAlive(init1); resp.GetExitCode() != 3 {
		t.Errorf("exit code %d", resp.GetExitCode())
	}
}

func TestACommandWithoutADeadlineEndsAlsoIfItsFirstProcessWasNotSeen(t *testing.T) {
	w := newWorld(t)
	w.exec = func(ctx context.Context) (*runtimeapi.ExecSyncResponse, error) {
		w.advance(time.Second) // a slow runtime
		w.enter(20)
		w.fork(21, 20)
		w.end(20)
		if w.advance(50 * time.Second); ctx.Err() != nil {
			t.Error("the runtime has less than a minute")
		}
		if w.advance(11 * time.Second); ctx.Err() == nil {
			t.Error("it has no end")
		}
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	_, err := w.r.Exec(t.Context(), w, "c", command, 0, reap.Kind{Always: true, Drain: true})
	if !errors.Is(err, reap.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	w.advance(time.Minute)
	w.wantAlive(init1, 21) // it could be the application's
}

func TestACommandWithoutADeadlineThatRunsIsNotLost(t *testing.T) {
	for name, begin := range map[string]func(w *world){
		"alone":                func(w *world) { w.enter(20) },
		"beside another's":     func(w *world) { w.enter(20, "sh", "-c", "y"); w.enter(22, "sh", "-c", "z") },
		"no process is known":  func(w *world) { w.end(init1) },
		"in the host's spaces": func(w *world) { w.add(20, shim, "host", dir, "replaced") },
	} {
		w := newWorld(t)
		if name == "in the host's spaces" {
			w.procs[init1].namespace = "host"
		}
		w.exec = func(ctx context.Context) (*runtimeapi.ExecSyncResponse, error) {
			begin(w)
			w.advance(time.Hour)
			return &runtimeapi.ExecSyncResponse{}, ctx.Err()
		}
		if _, err := w.r.Exec(t.Context(), w, "c", command, 0, reap.Kind{Always: true, Drain: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyEarlierRunsOfThisAgentAreSwept(t *testing.T) {
	w := newWorld(t)
	for pid, name := range map[int]string{20: "agent-a-1", 21: "agent-b-1", 22: "other-a-1"} {
		must.OK(t, w.Create(dir+"/journalet-"+name))
		w.add(pid, shim, "inner", dir+"/journalet-"+name)
	}
	w.run("b").Sweep(t.Context())
	w.wantAlive(init1, 21, 22)
}

func TestACommandWhoseProcessesCannotBeSeenRunsAsBefore(t *testing.T) {
	w := newWorld(t)
	w.end(init1) // as in a virtual machine
	w.quick(2)
}
