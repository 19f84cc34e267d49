package fakecri

import (
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// updateContainer changes a container's resources. Those that the request leaves out stay.
func (r *Runtime) updateContainer(id string, to *runtimeapi.LinuxContainerResources) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(&runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: to})
	c := r.containers[id]
	if c == nil {
		return notFound("container", id)
	}
	has := c.Config.Linux.Resources
	to = proto.CloneOf(to)
	to.HugepageLimits = nil
	proto.Merge(has, to)
	return nil
}

// Use sets the memory usage of a running container.
func (r *Runtime) Use(name string, bytes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		if c.Config.GetMetadata().GetName() == name && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			c.MemoryBytes = bytes
		}
	}
}

// Uses returns the memory usage of each running container, by name, in bytes.
func (r *Runtime) Uses() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]uint64{}
	for _, c := range r.containers {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			out[c.Config.GetMetadata().GetName()] = c.MemoryBytes
		}
	}
	return out
}
