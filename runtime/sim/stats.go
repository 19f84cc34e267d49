package sim

import (
	"context"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// processMemoryBytes is what each process uses.
const processMemoryBytes = 1 << 20

// ContainerStats reports the memory that a container uses, and nothing else.
func (s *runtimeService) ContainerStats(
	_ context.Context, req *cri.ContainerStatsRequest,
) (*cri.ContainerStatsResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c := s.r.findContainer(req.GetContainerId())
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	stats := &cri.ContainerStats{Attributes: &cri.ContainerAttributes{
		Id: c.id, Metadata: c.config.GetMetadata(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
	}}
	if c.state == cri.ContainerState_CONTAINER_RUNNING && c.process != nil {
		used := &cri.UInt64Value{Value: processMemoryBytes}
		stats.Memory = &cri.MemoryUsage{Timestamp: s.r.clock.Now().UnixNano(), UsageBytes: used, WorkingSetBytes: used}
	}
	return &cri.ContainerStatsResponse{Stats: stats}, nil
}

// UpdatePodSandboxResources takes what a pod has as a whole. As with containerd without plugins, it changes nothing.
func (s *runtimeService) UpdatePodSandboxResources(
	_ context.Context, req *cri.UpdatePodSandboxResourcesRequest,
) (*cri.UpdatePodSandboxResourcesResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.r.findSandbox(req.GetPodSandboxId()) == nil {
		return nil, notFound("sandbox", req.GetPodSandboxId())
	}
	return &cri.UpdatePodSandboxResourcesResponse{}, nil
}
