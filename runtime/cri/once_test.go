package cri_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/sim"
)

func createOnly(sandbox string) *journaletv1.CallRequested {
	req := startContainer(sandbox, 0)
	req.GetStartContainer().Part = journaletv1.StartPart_START_PART_CREATE
	return req
}

func startOnly(sandbox, id string) *journaletv1.CallRequested {
	req := startContainer(sandbox, 0)
	req.GetStartContainer().Part = journaletv1.StartPart_START_PART_START
	req.GetStartContainer().ContainerId = id
	return req
}

// state returns the state of the only container.
func (r *rig) state() runtimeapi.ContainerState {
	r.t.Helper()
	all := r.containers()
	if len(all) != 1 {
		r.t.Fatalf("containers %v, want one", all)
	}
	return all[0].GetState()
}

func TestRunOnceContainerIsCreatedThenStarted(t *testing.T) {
	r := newRig(t, nil)
	sandbox := r.sandbox()
	id := r.done("m", createOnly(sandbox), false).GetContainerId()
	if again := r.done("m", createOnly(sandbox), true).GetContainerId(); again != id {
		t.Errorf("created %s, then %s", id, again)
	}
	if s := r.state(); s != runtimeapi.ContainerState_CONTAINER_CREATED {
		t.Fatalf("the created container is %s", s)
	}
	r.done("s", startOnly(sandbox, id), false)
	if s := r.state(); s != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("the started container is %s", s)
	}
	r.runtime.ResetCalls()
	r.done("s", startOnly(sandbox, id), true)
	if n := r.runtime.Calls()["StartContainer"]; n != 0 {
		t.Errorf("a start in doubt was sent again %d times", n)
	}
}

func TestStartInDoubtIsInspectedAndNotRepeated(t *testing.T) {
	lost := journaletv1.CallError_CALL_ERROR_START_LOST
	for _, c := range []struct {
		name, command string
		fault         *sim.Fault
		inDoubt       bool // the agent died before the request reached the runtime
		want          journaletv1.CallError
		left          int // containers
	}{
		{name: "it took place and its response was lost",
			fault: &sim.Fault{AfterEffect: true, Err: status.Error(codes.Unavailable, "gone")}, left: 1},
		{name: "it took place and took too long", fault: &sim.Fault{AfterEffect: true, Hang: true}, left: 1},
		{name: "unknown whether it reached the runtime", fault: &sim.Fault{Err: status.Error(codes.Unavailable, "gone")},
			want: lost, left: 1},
		{name: "the agent died", inDoubt: true, want: lost, left: 1},
		{name: "the runtime canceled it with the process there", command: "/canceled-late",
			fault: &sim.Fault{AfterEffect: true, Err: status.Error(codes.Canceled, "gone")}, want: lost, left: 1},
		{name: "the runtime canceled it before there was a process", command: "/canceled-early",
			fault: &sim.Fault{AfterEffect: true, Err: status.Error(codes.Canceled, "gone")},
			want:  journaletv1.CallError_CALL_ERROR_NOT_DONE},
		{name: "the runtime canceled it while it started the shim", command: "/canceled-shim",
			fault: &sim.Fault{AfterEffect: true, Err: status.Error(codes.Canceled, "gone")},
			want:  journaletv1.CallError_CALL_ERROR_NOT_DONE},
		{name: "its program is missing", command: "/missing",
			fault: &sim.Fault{AfterEffect: true, Err: status.Error(codes.Canceled, "gone")},
			want:  journaletv1.CallError_CALL_ERROR_START, left: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := new(deadlines)
			r := newRig(t, func(o *cri.Options) { o.Clock = clock })
			if c.command != "" {
				r.pod.Spec.Containers[0].Command = []string{c.command}
			}
			sandbox := r.sandbox()
			id := r.done("m", createOnly(sandbox), false).GetContainerId()
			if c.fault != nil {
				c.fault.Method, c.fault.Times = "StartContainer", 1
				if c.fault.Hang {
					c.fault.Match = func(any) bool { clock.pass(t, time.Minute); return true }
				}
				r.runtime.Inject(*c.fault)
			}
			r.runtime.ResetCalls()
			if out := r.perform("s", startOnly(sandbox, id), c.inDoubt); out.GetError() != c.want {
				t.Errorf("outcome %v, want %s", out, c.want)
			}
			if n := r.runtime.Calls()["StartContainer"]; n > 1 {
				t.Errorf("it was sent %d times", n)
			}
			if all := r.containers(); len(all) != c.left {
				t.Errorf("containers %v, want %d", all, c.left)
			}
		})
	}
}

func TestCanceledStartWithUnremovableContainerIsLost(t *testing.T) {
	r := newRig(t, nil)
	r.pod.Spec.Containers[0].Command = []string{"/canceled-early"}
	sandbox := r.sandbox()
	id := r.done("m", createOnly(sandbox), false).GetContainerId()
	r.runtime.Inject(sim.Fault{Method: "StartContainer", AfterEffect: true, Err: status.Error(codes.Canceled, "gone"),
		Times: 1})
	r.runtime.Inject(sim.Fault{Method: "RemoveContainer", Err: status.Error(codes.Unknown, "cannot delete running task"),
		Times: 1})
	r.fails("s", startOnly(sandbox, id), journaletv1.CallError_CALL_ERROR_START_LOST, "cannot delete running task")
}

func TestContainerRemovedBeforeItsStartHasNotRun(t *testing.T) {
	r := newRig(t, nil)
	sandbox := r.sandbox()
	id := r.done("m", createOnly(sandbox), false).GetContainerId()
	if _, err := runtimeapi.NewRuntimeServiceClient(r.conn).RemoveContainer(context.Background(),
		&runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	if out := r.perform("s", startOnly(sandbox, id), false); out.GetError() != journaletv1.CallError_CALL_ERROR_NOT_DONE {
		t.Errorf("not in doubt: %v", out)
	}
	// In doubt, the removed container may have run.
	if out := r.perform("s", startOnly(sandbox, id), true); out.GetError() != journaletv1.CallError_CALL_ERROR_START_LOST {
		t.Errorf("in doubt: %v", out)
	}
	r.done("x", removeSandbox(sandbox), false)
	if out := r.perform("s", startOnly(sandbox, id),
		false); out.GetError() != journaletv1.CallError_CALL_ERROR_SANDBOX_GONE {
		t.Errorf("without its sandbox: %v", out)
	}
}
