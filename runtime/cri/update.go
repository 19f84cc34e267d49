package cri

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// ofPod are the intents about what is made of a pod.
type ofPod interface {
	GetDigest() string
	GetAllocatedDigest() string
	GetAllocatedAdded() map[string]*journaletv1.Resources
}

// allocated is the pod that an intent is about, with the CPU and memory of another manifest where one is named.
func (c *call) allocated(ctx context.Context, req ofPod) (*corev1.Pod, error) {
	pod, err := c.manifest(ctx, req.GetDigest())
	if err != nil || req.GetAllocatedDigest() == "" {
		return pod, err
	}
	from, err := c.manifest(ctx, req.GetAllocatedDigest())
	if err != nil {
		return nil, err
	}
	return resources.Allocated(pod, from, req.GetAllocatedAdded()), nil
}

// ofContainer are the intents about one container of a pod.
type ofContainer interface {
	ofPod
	GetContainer() string
}

// sized is the container that an intent is about, and its pod, with the resources that are allocated to them.
func (c *call) sized(ctx context.Context, req ofContainer) (*corev1.Pod, *corev1.Container, error) {
	pod, err := c.allocated(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	container := findContainer(pod, req.GetContainer())
	if container == nil {
		return nil, nil, fail(journaletv1.CallError_CALL_ERROR_CONFIG,
			fmt.Sprintf("the manifest %s has no container %q", req.GetDigest(), req.GetContainer()))
	}
	return pod, container, nil
}

// updateContainer gives a running container other resources, after the sandbox has been told, and then tells what the
// runtime shows. Done again it changes nothing.
func (c *call) updateContainer(ctx context.Context, req *journaletv1.UpdateContainer) (result, error) {
	pod, container, err := c.sized(ctx, req)
	if err != nil {
		return result{}, err
	}
	res := result{containerID: req.GetContainerId(), sandboxID: req.GetSandboxId()}
	if err := c.checkMemory(ctx, req.GetFallingLimits()); err != nil {
		return res, err
	}
	if err := c.resizeCgroup(ctx, pod, (*cgroup.Tree).Widen); err != nil {
		return res, err
	}
	if err := c.updateSandbox(ctx, pod, req.GetSandboxId()); err != nil {
		return res, err
	}
	sized := container.DeepCopy()
	sized.Resources = resources.Requirements(req.GetResources())
	_, err = settle(ctx, c, "UpdateContainerResources", c.opts.Timeouts.Call, func(ctx context.Context) (*runtimeapi.UpdateContainerResourcesResponse, error) {
		return c.rt.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{
			ContainerId: req.GetContainerId(), Linux: c.containerResources(pod, sized),
		})
	})
	if err != nil {
		return res, goneError(err, req.GetContainerId())
	}
	if err := c.resizeCgroup(ctx, pod, (*cgroup.Tree).Fit); err != nil {
		return res, err
	}
	shown, err := c.containerStatus(ctx, req.GetContainerId())
	if err != nil {
		return res, goneError(err, req.GetContainerId())
	}
	res.actual = ShownResources(shown.GetResources().GetLinux())
	return res, nil
}

// goneError gives the error of a container that is not there its code: nothing is left to be changed.
func goneError(err error, id string) error {
	if isNotFound(err) {
		return retryable(journaletv1.CallError_CALL_ERROR_NOT_DONE, fmt.Sprintf("container %s is gone", id))
	}
	return err
}

func (c *call) containerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	resp, err := settle(ctx, c, "ContainerStatus", c.opts.Timeouts.Look, func(ctx context.Context) (*runtimeapi.ContainerStatusResponse, error) {
		return c.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	})
	return resp.GetStatus(), err
}

// checkMemory refuses memory limits that are not above what containers use, as the kubelet does (validateMemoryResizeAction):
// the kernel would refuse them too, or kill. A container that is gone uses nothing.
func (c *call) checkMemory(ctx context.Context, limits []*journaletv1.MemoryLimit) error {
	var low []string
	for _, limit := range limits {
		resp, err := settle(ctx, c, "ContainerStats", c.opts.Timeouts.Look, func(ctx context.Context) (*runtimeapi.ContainerStatsResponse, error) {
			return c.rt.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: limit.GetContainerId()})
		})
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
		return retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, "cannot decrease memory limits: "+strings.Join(low, ", "))
	}
	return nil
}

// updateSandbox tells the runtime what a pod has as a whole. One that does not take it, or has no such sandbox any more, is
// no error, as in the kubelet.
func (c *call) updateSandbox(ctx context.Context, pod *corev1.Pod, id string) error {
	if id == "" {
		return nil
	}
	_, err := settle(ctx, c, "UpdatePodSandboxResources", c.opts.Timeouts.Call, func(ctx context.Context) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
		return c.rt.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
			PodSandboxId: id, Overhead: c.overhead(pod), Resources: c.sandboxResources(pod),
		})
	})
	// containerd 2.2 says so in words alone.
	without := status.Code(err) == codes.Unimplemented || status.Code(err) == codes.Unknown && strings.Contains(messageOf(err), "not implemented")
	if err != nil && !without && !isNotFound(err) {
		return fmt.Errorf("the runtime refuses the pod's resources: %w", err)
	}
	return nil
}

// ShownResources are the CPU and memory that a runtime shows of a container; nil for none. It does not show a memory request.
func ShownResources(r *runtimeapi.LinuxContainerResources) *journaletv1.Resources {
	if r == nil {
		return nil
	}
	out := &journaletv1.Resources{MemoryLimitBytes: max(0, r.GetMemoryLimitInBytes())}
	if r.GetCpuShares() > 0 {
		out.CpuRequestMillis = (r.GetCpuShares()*cgroup.MilliPerCPU + cgroup.SharesPerCPU - 1) / cgroup.SharesPerCPU
	}
	if r.GetCpuPeriod() > 0 {
		out.CpuLimitMillis = max(0, r.GetCpuQuota()*cgroup.MilliPerCPU/r.GetCpuPeriod())
	}
	return out
}
