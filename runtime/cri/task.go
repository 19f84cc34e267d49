package cri

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// containerd gives a start up when its caller is killed. Where it had made the task and had not asked for its process yet, it calls
// the container exited and keeps the task, and from then on it refuses to remove the container. CRI has no call for that, but
// containerd's own API stands at the same socket (ADR 023).

const (
	// taskKept is what containerd 1.6 to 2.4 say of such a container (client: Container.Delete).
	taskKept = "cannot delete running task"
	// namespaceHeader and criNamespace say whose the containers are that CRI made (containerd: pkg/namespaces, K8sContainerdNamespace).
	namespaceHeader = "containerd-namespace"
	criNamespace    = "k8s.io"
)

func isTaskKept(err error) bool {
	return status.Code(err) == codes.FailedPrecondition && strings.Contains(status.Convert(err).Message(), taskKept)
}

// deleteTask ends what containerd keeps of a container that it refuses to remove because of it.
func (c *call) deleteTask(ctx context.Context, container string) error {
	c.log.Warn("containerd keeps the task of a container that it calls exited; it is ended", "container", container)
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceHeader, criNamespace)
	api := tasks.NewTasksClient(c.opts.Conn)
	for _, step := range []struct {
		what, method string
		do           func(context.Context) (any, error)
	}{
		{"kill the task", "Tasks.Kill", func(ctx context.Context) (any, error) {
			return api.Kill(ctx, &tasks.KillRequest{ContainerID: container, Signal: uint32(unix.SIGKILL), All: true})
		}},
		{"wait for the end of the task", "Tasks.Wait", func(ctx context.Context) (any, error) {
			return api.Wait(ctx, &tasks.WaitRequest{ContainerID: container})
		}},
		{"delete the task", "Tasks.Delete", func(ctx context.Context) (any, error) {
			return api.Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: container})
		}},
	} {
		if _, err := settle(ctx, c, step.method, c.opts.Timeouts.Call, step.do); err != nil && !isNotFound(err) {
			return fmt.Errorf("%s of container %s: %w", step.what, container, err)
		}
	}
	return nil
}
