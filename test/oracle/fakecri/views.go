package fakecri

import (
	"maps"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func matches(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// named returns a container's image as runtimes report it: by the name in the request.
func named(c *Container) *runtimeapi.ImageSpec {
	name := c.Config.GetImage().GetUserSpecifiedImage()
	return &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: name}
}

func (r *Runtime) listSandboxes(f *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*runtimeapi.PodSandbox
	for _, id := range slices.Sorted(maps.Keys(r.sandboxes)) {
		s := r.sandboxes[id]
		if f.GetId() != "" && f.GetId() != id || f.GetState() != nil && f.GetState().GetState() != s.State ||
			!matches(s.Config.GetLabels(), f.GetLabelSelector()) {
			continue
		}
		out = append(out, &runtimeapi.PodSandbox{
			Id: id, Metadata: s.Config.GetMetadata(), State: s.State, CreatedAt: nanos(s.CreatedAt),
			Labels: s.Config.GetLabels(), Annotations: s.Config.GetAnnotations(),
		})
	}
	return out
}

func (r *Runtime) sandboxStatus(id string) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[id]
	if s == nil {
		return nil, notFound("sandbox", id)
	}
	network := &runtimeapi.PodSandboxNetworkStatus{}
	for i, ip := range s.IPs {
		if i == 0 {
			network.Ip = ip
			continue
		}
		network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: id, Metadata: s.Config.GetMetadata(), State: s.State, CreatedAt: nanos(s.CreatedAt), Network: network,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: s.Config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
		Labels: s.Config.GetLabels(), Annotations: s.Config.GetAnnotations(),
	}}, nil
}

func (r *Runtime) listContainers(f *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*runtimeapi.Container
	for _, id := range slices.Sorted(maps.Keys(r.containers)) {
		c := r.containers[id]
		if f.GetId() != "" && f.GetId() != id || f.GetState() != nil && f.GetState().GetState() != c.State ||
			f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.SandboxID ||
			!matches(c.Config.GetLabels(), f.GetLabelSelector()) {
			continue
		}
		out = append(out, &runtimeapi.Container{
			Id: id, PodSandboxId: c.SandboxID, Metadata: c.Config.GetMetadata(), Image: c.Config.GetImage(), ImageRef: c.ImageID,
			ImageId: c.ImageID, State: c.State, CreatedAt: nanos(c.CreatedAt),
			Labels: c.Config.GetLabels(), Annotations: c.Config.GetAnnotations(),
		})
	}
	return out
}

func (r *Runtime) containerStatus(id string) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return nil, notFound("container", id)
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: id, Metadata: c.Config.GetMetadata(), State: c.State, CreatedAt: nanos(c.CreatedAt),
		StartedAt: nanos(c.StartedAt), FinishedAt: nanos(c.FinishedAt), ExitCode: c.ExitCode,
		Image: named(c), ImageRef: c.ImageID, ImageId: c.ImageID, Reason: c.Reason, Message: c.Message,
		Labels: c.Config.GetLabels(), Annotations: c.Config.GetAnnotations(), Mounts: c.Config.GetMounts(),
		LogPath:   c.LogPath,
		Resources: &runtimeapi.ContainerResources{Linux: c.Config.GetLinux().GetResources()},
	}}, nil
}
