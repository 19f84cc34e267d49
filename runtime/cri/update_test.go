package cri_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/sim"
)

const allocatedDigest = "sha256:2"

// sizedRig has a running container with 100m to 200m of CPU and 64 to 128 MiB of memory; it uses 1 MiB of memory. In
// the manifest allocatedDigest it has 50m and 32 MiB.
func sizedRig(t *testing.T, change ...func(*cri.Options)) (r *rig, sandbox, container string) {
	t.Helper()
	r = newRig(t, func(o *cri.Options) {
		for _, f := range change {
			f(o)
		}
	})
	first := r.manifest
	r.manifest = func(ctx context.Context, d string) (*corev1.Pod, error) {
		if d != allocatedDigest {
			return first(ctx, d)
		}
		pod := r.pod.DeepCopy()
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}}
		return pod, nil
	}
	r.pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"),
			corev1.ResourceMemory: resource.MustParse("128Mi")},
	}
	r.done("volumes", setUpVolumes(), false)
	sandbox = r.done("sandbox", runSandbox(0), false).GetSandboxId()
	container = r.done("start", startContainer(sandbox, 0), false).GetContainerId()
	return r, sandbox, container
}

func update(sandbox, container string, size *journaletv1.Resources, falls bool) *journaletv1.CallRequested {
	u := &journaletv1.UpdateContainer{Container: "main", ContainerId: container, Digest: digest, Resources: size,
		SandboxId: sandbox}
	if falls {
		u.FallingLimits = []*journaletv1.MemoryLimit{
			{Container: "gone", ContainerId: "gone", Bytes: 1},
			{Container: "main", ContainerId: container, Bytes: size.GetMemoryLimitBytes()},
		}
	}
	return messages.NewCall(u)
}

func TestUpdateChangesResourcesAndReturnsReportedOnes(t *testing.T) {
	r, sandbox, container := sizedRig(t)
	size := &journaletv1.Resources{CpuRequestMillis: 300, CpuLimitMillis: 400, MemoryRequestBytes: 64 << 20,
		MemoryLimitBytes: 256 << 20}
	for _, inDoubt := range []bool{false, true} { // it is idempotent
		out := r.done("update", update(sandbox, container, size, false), inDoubt)
		want := &journaletv1.Resources{CpuRequestMillis: 300, CpuLimitMillis: 400, MemoryLimitBytes: 256 << 20}
		if !proto.Equal(out.GetReported(), want) {
			t.Errorf("the runtime reports %v, want %v", out.GetReported(), want)
		}
	}
	got := r.status(container).GetResources().GetLinux()
	if got.GetCpuShares() != 307 || got.GetCpuQuota() != 40_000 || got.GetMemoryLimitInBytes() != 256<<20 {
		t.Errorf("the container has %v", got)
	}
	if st := r.status(container).GetState(); st != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container is %s", st)
	}
}

func TestMemoryLimitBelowUsageIsRefused(t *testing.T) {
	r, sandbox, container := sizedRig(t)
	low := &journaletv1.Resources{CpuRequestMillis: 100, CpuLimitMillis: 200, MemoryLimitBytes: 1 << 20}
	r.fails("low", update(sandbox, container, low, true), journaletv1.CallError_CALL_ERROR_RUNTIME,
		`cannot decrease memory limits: attempting to set container "main" memory limit (1048576) `+
			`below current usage (1048576)`)
	if got := r.status(container).GetResources().GetLinux().GetMemoryLimitInBytes(); got != 128<<20 {
		t.Errorf("the memory limit is %d", got)
	}
	low.MemoryLimitBytes++
	r.done("enough", update(sandbox, container, low, true), false)
}

func TestResizeWorksWithoutSandboxUpdates(t *testing.T) {
	r, sandbox, container := sizedRig(t)
	size := &journaletv1.Resources{CpuRequestMillis: 300, CpuLimitMillis: 400, MemoryLimitBytes: 128 << 20}
	for i, c := range []struct {
		err  error
		fail bool
	}{
		{status.Error(codes.Unimplemented, "unknown method"), false},
		{status.Error(codes.Unknown, "not implemented yet"), false},
		{status.Error(codes.Unknown, "a plugin refuses"), true},
	} {
		r.runtime.Inject(sim.Fault{Method: "UpdatePodSandboxResources", Err: c.err, Times: 1})
		size.CpuRequestMillis += int64(i)
		out := r.perform("update", update(sandbox, container, size, false), false)
		if failed := out.GetError() != 0; failed != c.fail {
			t.Errorf("%v: outcome %v", c.err, out)
		}
	}
	r.runtime.Inject(sim.Fault{Method: "UpdateContainerResources", Err: status.Error(codes.NotFound, "no container"),
		Times: 1})
	r.fails("gone", update(sandbox, container, size, false), journaletv1.CallError_CALL_ERROR_NOT_DONE, "is gone")
}

func TestContainerIsCreatedWithAllocatedResources(t *testing.T) {
	r, sandbox, first := sizedRig(t)
	r.done("stop", messages.NewCall(&journaletv1.StopContainer{Container: "main", ContainerId: first}), false)
	again := startContainer(sandbox, 1)
	again.GetStartContainer().AllocatedDigest = allocatedDigest
	id := r.done("again", again, false).GetContainerId()
	got := r.status(id).GetResources().GetLinux()
	if got.GetCpuShares() != 51 || got.GetCpuQuota() != 0 || got.GetMemoryLimitInBytes() != 0 {
		t.Errorf("the container has %v", got)
	}
}

func (r *rig) status(id string) *runtimeapi.ContainerStatus {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resp, err := runtimeapi.NewRuntimeServiceClient(r.conn).ContainerStatus(ctx,
		&runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.GetStatus()
}

func TestContainerIsMovedAndKeepsItsResources(t *testing.T) {
	r, _, container := sizedRig(t)
	before := r.status(container).GetResources().GetLinux()
	for _, inDoubt := range []bool{false, true} { // it is idempotent
		r.done("move", messages.NewCall(&journaletv1.UpdateContainer{
			Container: "main", ContainerId: container, Digest: digest, Placement: &journaletv1.Placement{Cpus: "0,2-3"},
		}), inDoubt)
	}
	got := r.status(container).GetResources().GetLinux()
	if got.GetCpusetCpus() != "0,2-3" || got.GetCpuShares() != before.GetCpuShares() ||
		got.GetCpuQuota() != before.GetCpuQuota() || got.GetMemoryLimitInBytes() != before.GetMemoryLimitInBytes() {
		t.Errorf("the container has %v, before it had %v", got, before)
	}
	r.fails("gone", messages.NewCall(&journaletv1.UpdateContainer{
		Container: "main", ContainerId: "gone", Digest: digest, Placement: &journaletv1.Placement{Cpus: "0"},
	}), journaletv1.CallError_CALL_ERROR_NOT_DONE, "container gone is gone")
}

func TestUpdateFollowsTheNodesPeriod(t *testing.T) {
	r, sandbox, container := sizedRig(t, func(o *cri.Options) { o.Resources.CPUQuota = cgroup.CPUQuota{Period: 10_000} })
	size := &journaletv1.Resources{CpuRequestMillis: 300, CpuLimitMillis: 400, MemoryRequestBytes: 64 << 20,
		MemoryLimitBytes: 256 << 20}
	out := r.done("update", update(sandbox, container, size, false), false)
	want := &journaletv1.Resources{CpuRequestMillis: 300, CpuLimitMillis: 400, MemoryLimitBytes: 256 << 20}
	if !proto.Equal(out.GetReported(), want) {
		t.Errorf("the runtime reports %v, want %v", out.GetReported(), want)
	}
	if got := r.status(container).GetResources().GetLinux(); got.GetCpuQuota() != 4000 || got.GetCpuPeriod() != 10_000 {
		t.Errorf("the container has %v", got)
	}
}

func TestContainerWithCPUsAloneHasNoQuota(t *testing.T) {
	r, sandbox, _ := sizedRig(t)
	start := startContainer(sandbox, 1)
	start.GetStartContainer().Placement = &journaletv1.Placement{
		Cpus: "2-3", MemoryNodes: []uint32{0, 1}, Exclusive: true, PodExclusive: true,
	}
	id := r.done("start", start, false).GetContainerId()
	got := r.status(id).GetResources().GetLinux()
	if got.GetCpusetCpus() != "2-3" || got.GetCpusetMems() != "0,1" || got.GetCpuQuota() != -1 || got.GetCpuShares() == 0 {
		t.Errorf("the container has %v", got)
	}
	size := &journaletv1.Resources{CpuRequestMillis: 100, CpuLimitMillis: 200, MemoryLimitBytes: 256 << 20}
	resize := update(sandbox, id, size, false)
	resize.GetUpdateContainer().Placement = start.GetStartContainer().GetPlacement()
	r.done("resize", resize, false)
	if got := r.status(id).GetResources().GetLinux(); got.GetCpuQuota() != -1 || got.GetMemoryLimitInBytes() != 256<<20 {
		t.Errorf("after a resize of its memory the container has %v", got)
	}
}
