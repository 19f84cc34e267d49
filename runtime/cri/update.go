package cri

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// containerIntent is an intent about one container of a pod.
type containerIntent interface {
	calls.PodIntent
	GetContainer() string
}

// allocatedContainer returns the container of an intent and its pod, with their allocated resources.
func (c *call) allocatedContainer(
	ctx context.Context, req containerIntent,
) (*corev1.Pod, *corev1.Container, error) {
	pod, err := c.AllocatedPod(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	container := containers.Find(pod, req.GetContainer())
	if container == nil {
		return nil, nil, calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG,
			fmt.Sprintf("the manifest %s has no container %q", req.GetDigest(), req.GetContainer()))
	}
	return pod, container, nil
}

// updateContainer changes the resources of the sandbox and then of a running container, and returns what the runtime
// reports afterwards. It is idempotent.
func (c *call) updateContainer(ctx context.Context, req *journaletv1.UpdateContainer) (*calls.Outcome, error) {
	if req.GetResources() == nil {
		return c.moveContainer(ctx, req)
	}
	pod, container, err := c.allocatedContainer(ctx, req)
	if err != nil {
		return nil, err
	}
	res := &calls.Outcome{ContainerId: req.GetContainerId(), SandboxId: req.GetSandboxId()}
	if err := c.checkMemory(ctx, req.GetFallingLimits()); err != nil {
		return res, err
	}
	if err := c.resizeCgroup(ctx, pod, req.GetPlacement().GetPodExclusive(), (*cgroup.Tree).Widen); err != nil {
		return res, err
	}
	if err := c.updateSandbox(ctx, pod, req.GetSandboxId()); err != nil {
		return res, err
	}
	sized := container.DeepCopy()
	sized.Resources = resources.Requirements(req.GetResources())
	_, err = retry(ctx, c, "UpdateContainerResources", c.opts.Timeouts.Call, c.rt.UpdateContainerResources,
		&runtimeapi.UpdateContainerResourcesRequest{
			ContainerId: req.GetContainerId(), Linux: placed(c.opts.Resources.ofContainer(pod, sized), req.GetPlacement()),
		})
	if err != nil {
		return res, notFoundError(err, req.GetContainerId())
	}
	if err := c.resizeCgroup(ctx, pod, req.GetPlacement().GetPodExclusive(), (*cgroup.Tree).Fit); err != nil {
		return res, err
	}
	st, err := c.containerStatus(ctx, req.GetContainerId())
	if err != nil {
		return res, notFoundError(err, req.GetContainerId())
	}
	res.Reported = ReportedResources(st.GetResources().GetLinux())
	return res, nil
}

// updatePod changes the resources of a pod as a whole: of its cgroup and its sandbox. It is idempotent.
func (c *call) updatePod(ctx context.Context, req *journaletv1.UpdateSandbox) (*calls.Outcome, error) {
	res := &calls.Outcome{SandboxId: req.GetSandboxId()}
	pod, err := c.AllocatedPod(ctx, req)
	if err != nil {
		return res, err
	}
	if err := c.resizeCgroup(ctx, pod, req.GetExclusiveCpus(), (*cgroup.Tree).Widen); err != nil {
		return res, err
	}
	if err := c.updateSandbox(ctx, pod, req.GetSandboxId()); err != nil {
		return res, err
	}
	return res, c.resizeCgroup(ctx, pod, req.GetExclusiveCpus(), (*cgroup.Tree).Fit)
}

// moveContainer changes the CPUs of a running container and nothing else. It is idempotent.
func (c *call) moveContainer(ctx context.Context, req *journaletv1.UpdateContainer) (*calls.Outcome, error) {
	_, err := retry(ctx, c, "UpdateContainerResources", c.opts.Timeouts.Call, c.rt.UpdateContainerResources,
		&runtimeapi.UpdateContainerResourcesRequest{
			ContainerId: req.GetContainerId(),
			Linux:       &runtimeapi.LinuxContainerResources{CpusetCpus: req.GetPlacement().GetCpus()},
		})
	return &calls.Outcome{ContainerId: req.GetContainerId()}, notFoundError(err, req.GetContainerId())
}

// notFoundError gives a not-found error of a container its code: there is nothing left to change.
func notFoundError(err error, id string) error {
	if isNotFound(err) {
		return calls.Retryable(journaletv1.CallError_CALL_ERROR_NOT_DONE, fmt.Sprintf("container %s is gone", id))
	}
	return err
}

func (c *call) containerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	resp, err := retry(ctx, c, "ContainerStatus", c.opts.Timeouts.Inspect, c.rt.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: id})
	return resp.GetStatus(), err
}

// checkMemory refuses memory limits that are not above the containers' usage, as the kubelet does
// (validateMemoryResizeAction): the kernel would refuse them too, or kill processes. A removed container uses nothing.
func (c *call) checkMemory(ctx context.Context, limits []*journaletv1.MemoryLimit) error {
	var low []string
	for _, limit := range limits {
		resp, err := retry(ctx, c, "ContainerStats", c.opts.Timeouts.Inspect, c.rt.ContainerStats,
			&runtimeapi.ContainerStatsRequest{ContainerId: limit.GetContainerId()})
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		used := resp.GetStats().GetMemory().GetUsageBytes()
		if used == nil {
			low = append(low, fmt.Sprintf("missing container %q memory usage", limit.GetContainer()))
		} else if used.GetValue() >= uint64(max(0, limit.GetBytes())) {
			low = append(low, fmt.Sprintf("attempting to set container %q memory limit (%d) below current usage (%d)",
				limit.GetContainer(), limit.GetBytes(), used.GetValue()))
		}
	}
	if len(low) > 0 {
		return calls.Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME,
			"cannot decrease memory limits: "+strings.Join(low, ", "))
	}
	return nil
}

// updateSandbox sends the pod's resources as a whole to the runtime. As in the kubelet, it is no error if the runtime
// does not implement that, or the sandbox is gone.
func (c *call) updateSandbox(ctx context.Context, pod *corev1.Pod, id string) error {
	if id == "" {
		return nil
	}
	_, err := retry(ctx, c, "UpdatePodSandboxResources", c.opts.Timeouts.Call, c.rt.UpdatePodSandboxResources,
		&runtimeapi.UpdatePodSandboxResourcesRequest{
			PodSandboxId: id, Overhead: c.overhead(pod), Resources: c.sandboxResources(pod),
		})
	unimplemented := status.Code(err) == codes.Unimplemented ||
		// containerd 2.2 has no code for it.
		status.Code(err) == codes.Unknown && strings.Contains(messageOf(err), "not implemented")
	if err != nil && !unimplemented && !isNotFound(err) {
		return fmt.Errorf("the runtime refuses the pod's resources: %w", err)
	}
	return nil
}

// ReportedResources returns the CPU and memory that a runtime reports for a container; nil for none. Runtimes report no
// memory request.
func ReportedResources(r *runtimeapi.LinuxContainerResources) *journaletv1.Resources {
	if r == nil {
		return nil
	}
	out := &journaletv1.Resources{MemoryLimitBytes: max(0, r.GetMemoryLimitInBytes())}
	if r.GetCpuShares() > 0 {
		out.CpuRequestMillis = (r.GetCpuShares()*resources.MilliPerCPU + cgroup.SharesPerCPU - 1) / cgroup.SharesPerCPU
	}
	if r.GetCpuPeriod() > 0 {
		out.CpuLimitMillis = max(0, r.GetCpuQuota()*resources.MilliPerCPU/r.GetCpuPeriod())
	}
	return out
}
