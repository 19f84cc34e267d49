package cri_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/journalet/journalet/runtime/cri"
)

// keeper is a containerd that keeps the task of a container, and refuses to remove the container until the task is
// deleted.
type keeper struct {
	grpc.ClientConnInterface
	t     *testing.T
	calls []string
	// stuck means that the task cannot be killed.
	stuck bool
}

func (k *keeper) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	name := method[strings.LastIndex(method, "/")+1:]
	if strings.HasPrefix(method, "/containerd.services.tasks.v1.Tasks/") {
		out, _ := metadata.FromOutgoingContext(ctx)
		if ns := out.Get("containerd-namespace"); !slices.Equal(ns, []string{"k8s.io"}) {
			k.t.Errorf("%s in namespace %v", name, ns)
		}
		if kill, ok := args.(*tasks.KillRequest); ok && (kill.GetSignal() != 9 || !kill.GetAll()) {
			k.t.Errorf("kill: %v", kill)
		}
		k.calls = append(k.calls, name)
		if k.stuck {
			return status.Error(codes.Unknown, "the shim is stuck")
		}
		return nil
	}
	if name == "RemoveContainer" {
		k.calls = append(k.calls, name)
		if !slices.Contains(k.calls, "Delete") {
			return status.Error(codes.FailedPrecondition,
				`failed to delete containerd container "c": cannot delete running task c: failed precondition`)
		}
	}
	return k.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func TestTaskThatContainerdKeepsIsDeleted(t *testing.T) {
	k := &keeper{t: t}
	r := newRig(t, func(o *cri.Options) { k.ClientConnInterface = o.Conn; o.Conn = k })
	sandbox := r.sandbox()
	r.done("c", startContainer(sandbox, 0), false)
	r.done("r", removeSandbox(sandbox), false)
	if want := []string{"RemoveContainer", "Kill", "Wait", "Delete", "RemoveContainer"}; !slices.Equal(k.calls, want) {
		t.Errorf("calls %v, want %v", k.calls, want)
	}
	if left := r.containers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestTaskThatCannotBeKilledFailsRemoval(t *testing.T) {
	k := &keeper{t: t, stuck: true}
	r := newRig(t, func(o *cri.Options) { k.ClientConnInterface = o.Conn; o.Conn = k })
	sandbox := r.sandbox()
	r.done("c", startContainer(sandbox, 0), false)
	out := r.perform("r", removeSandbox(sandbox), false)
	if !out.GetRetryable() || !strings.Contains(out.GetMessage(), "kill the task of container") ||
		!strings.Contains(out.GetMessage(), "the shim is stuck") {
		t.Errorf("outcome %v", out)
	}
}
