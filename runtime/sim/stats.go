package sim

import (
	"context"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// processMemoryBytes is what each process uses.
const processMemoryBytes = 1 << 20

// blockBytes is what a small file takes of a disk.
const blockBytes = 4 << 10

// ContainerStats reports CPU and memory that a container would use, and what its processes wrote into its own files.
func (s *runtimeService) ContainerStats(
	_ context.Context, req *cri.ContainerStatsRequest,
) (*cri.ContainerStatsResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c := s.r.findContainer(req.GetContainerId())
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	return &cri.ContainerStatsResponse{Stats: s.r.stats(c)}, nil
}

// ListContainerStats reports the same of all containers that match, oldest first.
func (s *runtimeService) ListContainerStats(
	_ context.Context, req *cri.ListContainerStatsRequest,
) (*cri.ListContainerStatsResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	f := req.GetFilter()
	out := new(cri.ListContainerStatsResponse)
	for _, c := range s.r.sortedContainers(func(c *container) bool {
		return (f.GetId() == "" || f.GetId() == c.id) && (f.GetPodSandboxId() == "" || f.GetPodSandboxId() == c.sandboxID) &&
			matchLabels(f.GetLabelSelector(), c.config.GetLabels())
	}) {
		out.Stats = append(out.Stats, s.r.stats(c))
	}
	return out, nil
}

// stats returns what a container uses; r.mu is held.
func (r *Runtime) stats(c *container) *cri.ContainerStats {
	var written uint64
	for _, text := range c.files {
		if text != nil {
			written += (uint64(len(*text)) + blockBytes - 1) / blockBytes * blockBytes
		}
	}
	now := r.clock.Now().UnixNano()
	stats := &cri.ContainerStats{
		Attributes: &cri.ContainerAttributes{
			Id: c.id, Metadata: c.config.GetMetadata(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		},
		WritableLayer: &cri.FilesystemUsage{
			Timestamp: now, FsId: &cri.FilesystemIdentifier{Mountpoint: imageMountpoint},
			UsedBytes: &cri.UInt64Value{Value: written},
		},
	}
	if c.state == cri.ContainerState_CONTAINER_RUNNING && c.process != nil {
		used := &cri.UInt64Value{Value: processMemoryBytes}
		busy := uint64(c.id[0])*uint64(time.Millisecond)/4 + 1 // of a second: 12 to 25 ms, the id is hexadecimal
		stats.Cpu = &cri.CpuUsage{
			Timestamp: now, UsageNanoCores: &cri.UInt64Value{Value: busy},
			UsageCoreNanoSeconds: &cri.UInt64Value{Value: busy * uint64(max(now-c.startedAt, 0)) / uint64(time.Second)},
		}
		stats.Memory = &cri.MemoryUsage{Timestamp: now, UsageBytes: used, WorkingSetBytes: used}
	}
	return stats
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
