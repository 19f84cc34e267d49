//go:build integration

package cri_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/metadata"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
)

// A canceled start leaves such a task at a moment that no test can hit, so this test creates the task through
// containerd's API.
func TestLabRemovesContainerWhoseTaskContainerdKeeps(t *testing.T) {
	r := newLab(t, time.Second)
	r.done("v", setUpVolumes(), false)
	sandbox := r.done("s", runSandbox(0), false).GetSandboxId()
	id := r.done("c", createOnly(sandbox), false).GetContainerId()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "containerd-namespace", "k8s.io"),
		2*time.Minute)
	defer cancel()
	c, err := containers.NewContainersClient(r.conn).Get(ctx, &containers.GetContainerRequest{ID: id})
	must.OK(t, err)
	root, err := snapshots.NewSnapshotsClient(r.conn).Mounts(ctx, &snapshots.MountsRequest{
		Snapshotter: c.GetContainer().GetSnapshotter(), Key: c.GetContainer().GetSnapshotKey(),
	})
	must.OK(t, err)
	if _, err := tasks.NewTasksClient(r.conn).Create(ctx,
		&tasks.CreateTaskRequest{ContainerID: id, Rootfs: root.GetMounts()}); err != nil {
		t.Fatal(err)
	}
	_, err = runtimeapi.NewRuntimeServiceClient(r.conn).RemoveContainer(ctx,
		&runtimeapi.RemoveContainerRequest{ContainerId: id})
	if err == nil || !strings.Contains(err.Error(), "cannot delete running task") {
		t.Fatalf("containerd removed the container: %v", err)
	}
	r.done("r", removeContainer(id), false)
	if _, err := containers.NewContainersClient(r.conn).Get(ctx, &containers.GetContainerRequest{ID: id}); err == nil {
		t.Error("the container was not removed")
	}
}
