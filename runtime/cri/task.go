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

// containerd cancels a start when its client is killed. If it had created the task and not yet started its process, it
// reports the container as exited, keeps the task, and refuses to remove the container. CRI has no call for that, but
// containerd serves its own API on the same socket (ADR 023).

const (
	// taskLeftMessage is the error of containerd 1.6 to 2.4 for such a container (client: Container.Delete).
	taskLeftMessage = "cannot delete running task"
	// namespaceHeader and criNamespace select containers created through CRI (containerd: pkg/namespaces,
	// K8sContainerdNamespace).
	namespaceHeader = "containerd-namespace"
	criNamespace    = "k8s.io"
)

func isTaskLeft(err error) bool {
	return status.Code(err) == codes.FailedPrecondition && strings.Contains(status.Convert(err).Message(), taskLeftMessage)
}

// deleteTask kills and deletes the task that keeps containerd from removing a container.
func (c *call) deleteTask(ctx context.Context, container string) error {
	c.Log.Warn("containerd keeps the task of an exited container; killing and deleting the task", "container", container)
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
		if _, err := retryFunc(ctx, c, step.method, c.opts.Timeouts.Call, step.do); err != nil && !isNotFound(err) {
			return fmt.Errorf("%s of container %s: %w", step.what, container, err)
		}
	}
	return nil
}
