package sim

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exit codes and reasons as containerd reports them.
const (
	exitCodeTERM       = 143 // 128 + SIGTERM
	exitCodeKILL       = 137 // 128 + SIGKILL
	exitCodeStartError = 128

	reasonCompleted  = "Completed"
	reasonError      = "Error"
	reasonOOM        = "OOMKilled"
	reasonStartError = "StartError"
)

// errReserved refuses a name that is reserved already, with the code of containerd 2.4.
func errReserved(kind, name, holder string) error {
	return status.Errorf(codes.FailedPrecondition, "failed to reserve %s name %q: name %q is reserved for %q",
		kind, name, name, holder)
}

// container is one container. Fields id to createdAt never change.
type container struct {
	id        string
	name      string // the reserved name
	sandboxID string
	config    *cri.ContainerConfig
	logPath   string
	imageID   string
	createdAt int64

	state      cri.ContainerState
	startedAt  int64
	finishedAt int64
	exitCode   int32
	reason     string
	message    string
	resources  *cri.ContainerResources
	stopped    chan struct{} // closed when it is EXITED or gone
	process    *process      // nil unless started
	files      fileSet       // what its processes wrote, kept in memory
	signalled  bool          // the stop signal was sent; it is sent only once
	attached   map[chan<- Effect]struct{}
}

// containerName is what containerd reserves for a container of a pod's attempt.
func containerName(m *cri.ContainerMetadata, s *cri.PodSandboxMetadata) string {
	return strings.Join([]string{m.GetName(), s.GetName(), s.GetNamespace(), s.GetUid(), fmt.Sprint(m.GetAttempt())}, "_")
}

func (s *runtimeService) CreateContainer(
	_ context.Context, req *cri.CreateContainerRequest,
) (*cri.CreateContainerResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	sb := r.findSandbox(req.GetPodSandboxId())
	if sb == nil {
		return nil, notFound("sandbox", req.GetPodSandboxId())
	}
	config := req.GetConfig()
	switch {
	case !sb.ready:
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", sb.id)
	case config.GetMetadata().GetName() == "":
		return nil, status.Error(codes.Unknown, "container config must include metadata")
	case req.GetSandboxConfig().GetMetadata() == nil:
		return nil, status.Error(codes.Unknown, "pod sandbox config must include metadata")
	case len(r.state.containers) >= maxContainers:
		return nil, status.Errorf(codes.ResourceExhausted, "%d containers exist; remove some", maxContainers)
	}
	if err := r.checkTarget(sb.id, config.GetLinux().GetSecurityContext().GetNamespaceOptions()); err != nil {
		return nil, err
	}
	name := containerName(config.GetMetadata(), req.GetSandboxConfig().GetMetadata())
	if holder, taken := r.state.containerNames[name]; taken {
		return nil, errReserved("container", name, holder)
	}
	img := r.findImage(config.GetImage().GetImage())
	if img == nil {
		return nil, status.Errorf(codes.NotFound, "failed to resolve image %q: not found", config.GetImage().GetImage())
	}
	c := &container{
		id: r.newID(), name: name, sandboxID: sb.id, config: withHostname(config, sb.config.GetHostname()),
		imageID: img.id, createdAt: r.stamp(),
		state: cri.ContainerState_CONTAINER_CREATED, stopped: make(chan struct{}), files: fileSet{},
	}
	if dir := sb.config.GetLogDirectory(); dir != "" && config.GetLogPath() != "" {
		c.logPath = filepath.Join(dir, config.GetLogPath())
	}
	if res := config.GetLinux().GetResources(); res != nil {
		c.resources = limits(proto.CloneOf(res))
	}
	r.state.containers[c.id] = c
	r.state.containerNames[name] = c.id
	r.publish(c.id, sb.id, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &cri.CreateContainerResponse{ContainerId: c.id}, nil
}

// withHostname returns a container's configuration with the variable HOSTNAME before its own, as containerd has it.
func withHostname(config *cri.ContainerConfig, hostname string) *cri.ContainerConfig {
	if hostname == "" {
		return config
	}
	config = proto.CloneOf(config)
	config.Envs = append([]*cri.KeyValue{{Key: "HOSTNAME", Value: []byte(hostname)}}, config.GetEnvs()...)
	return config
}

// checkTarget refuses a container whose target container does not run in the sandbox. The caller holds r.mu.
func (r *Runtime) checkTarget(sandboxID string, n *cri.NamespaceOption) error {
	if n.GetPid() != cri.NamespaceMode_TARGET {
		return nil
	}
	const invalid = "invalid target container: container %q "
	switch c := r.findContainer(n.GetTargetId()); {
	case c == nil:
		return status.Errorf(codes.Unknown, invalid+"does not exist: not found", n.GetTargetId())
	case c.sandboxID != sandboxID:
		return status.Errorf(codes.Unknown, invalid+"(sandbox %s) does not belong to sandbox %s", c.id, c.sandboxID,
			sandboxID)
	case c.state != cri.ContainerState_CONTAINER_RUNNING:
		return status.Errorf(codes.Unknown, invalid+"is not running - in state %s", c.id, c.state)
	}
	return nil
}

func (s *runtimeService) RemoveContainer(
	_ context.Context, req *cri.RemoveContainerRequest,
) (*cri.RemoveContainerResponse, error) {
	if req.GetContainerId() == "" {
		return nil, errEmptyID
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if c := s.r.findContainer(req.GetContainerId()); c != nil {
		s.r.removeContainer(c)
	}
	return &cri.RemoveContainerResponse{}, nil
}

// removeContainer kills a container that runs, and forgets it. r.mu is held.
func (r *Runtime) removeContainer(c *container) {
	r.killNow(c)
	c.markStopped()
	delete(r.state.containers, c.id)
	delete(r.state.containerNames, c.name)
	r.publish(c.id, c.sandboxID, cri.ContainerEventType_CONTAINER_DELETED_EVENT)
}

func (s *runtimeService) ContainerStatus(
	_ context.Context, req *cri.ContainerStatusRequest,
) (*cri.ContainerStatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c := s.r.findContainer(req.GetContainerId())
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	return &cri.ContainerStatusResponse{Status: s.r.containerStatus(c)}, nil
}

// containerStatus is the status as containerd forms it: the image by its first tag and digest while the image exists,
// times only in the states that have them. r.mu is held.
func (r *Runtime) containerStatus(c *container) *cri.ContainerStatus {
	st := &cri.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state, CreatedAt: c.createdAt, ExitCode: c.exitCode,
		Image: c.config.GetImage(), ImageRef: c.imageID, ImageId: c.imageID, Reason: c.reason, Message: c.message,
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), Mounts: c.config.GetMounts(),
		LogPath: c.logPath, Resources: c.resources, User: containerUser(c.config), StopSignal: stopSignal(c.config),
	}
	if img := r.state.images[c.imageID]; img != nil {
		if len(img.tags) > 0 {
			st.Image = &cri.ImageSpec{Image: img.tags[0]}
		}
		if len(img.digests) > 0 {
			st.ImageRef = img.digests[0]
		}
	}
	switch c.state {
	case cri.ContainerState_CONTAINER_RUNNING:
		st.StartedAt = c.startedAt
	case cri.ContainerState_CONTAINER_EXITED:
		st.StartedAt, st.FinishedAt = c.startedAt, c.finishedAt
	}
	if c.state == cri.ContainerState_CONTAINER_EXITED && c.reason == "" {
		st.Reason = reasonCompleted
		if c.exitCode != 0 {
			st.Reason = reasonError
		}
	}
	return st
}

func containerUser(config *cri.ContainerConfig) *cri.ContainerUser {
	sc := config.GetLinux().GetSecurityContext()
	u := &cri.LinuxContainerUser{Uid: sc.GetRunAsUser().GetValue(), Gid: sc.GetRunAsGroup().GetValue()}
	u.SupplementalGroups = append([]int64{u.Gid}, sc.GetSupplementalGroups()...)
	return &cri.ContainerUser{Linux: u}
}

func stopSignal(config *cri.ContainerConfig) cri.Signal {
	if s := config.GetStopSignal(); s != cri.Signal_SIGNAL_RUNTIME_DEFAULT {
		return s
	}
	return cri.Signal_SIGNAL_SIGTERM
}

func (s *runtimeService) ListContainers(
	_ context.Context, req *cri.ListContainersRequest,
) (*cri.ListContainersResponse, error) {
	return &cri.ListContainersResponse{Containers: s.r.listContainers(req.GetFilter())}, nil
}

// listContainers returns what matches the filter, oldest first.
func (r *Runtime) listContainers(f *cri.ContainerFilter) []*cri.Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	matches := func(c *container) bool {
		if f.GetId() != "" && r.findContainer(f.GetId()) != c {
			return false
		}
		if id := f.GetPodSandboxId(); id != "" && id != c.sandboxID {
			if sb := r.findSandbox(id); sb == nil || sb.id != c.sandboxID {
				return false
			}
		}
		if f.GetState() != nil && f.GetState().GetState() != c.state {
			return false
		}
		return matchLabels(f.GetLabelSelector(), c.config.GetLabels())
	}
	var items []*cri.Container
	for _, c := range r.sortedContainers(matches) {
		items = append(items, &cri.Container{
			Id: c.id, PodSandboxId: c.sandboxID, Metadata: c.config.GetMetadata(), Image: c.config.GetImage(),
			ImageRef: c.imageID, ImageId: c.imageID, State: c.state, CreatedAt: c.createdAt,
			Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		})
	}
	return items
}

func (s *runtimeService) UpdateContainerResources(
	_ context.Context, req *cri.UpdateContainerResourcesRequest,
) (*cri.UpdateContainerResourcesResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c := s.r.findContainer(req.GetContainerId())
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	merged := &cri.LinuxContainerResources{}
	if c.resources != nil {
		merged = proto.CloneOf(c.resources.GetLinux())
	}
	// Merge overwrites only what the request sets: zero means "leave it", as in containerd.
	merged.MemorySwapLimitInBytes = 0
	proto.Merge(merged, req.GetLinux())
	c.resources = limits(merged)
	return &cri.UpdateContainerResourcesResponse{}, nil
}

// limits reports resources as containerd does: an unset swap limit equals the memory limit, which means no swap.
func limits(res *cri.LinuxContainerResources) *cri.ContainerResources {
	if res.GetMemorySwapLimitInBytes() == 0 {
		res.MemorySwapLimitInBytes = res.GetMemoryLimitInBytes()
	}
	return &cri.ContainerResources{Linux: res}
}

// findContainer finds by id or by a prefix of it that fits only one. r.mu is held.
func (r *Runtime) findContainer(id string) *container { return findByID(r.state.containers, id) }

// containersOf are a sandbox's containers, oldest first. r.mu is held.
func (r *Runtime) containersOf(sandboxID string) []*container {
	return r.sortedContainers(func(c *container) bool { return c.sandboxID == sandboxID })
}

// sortedContainers returns the containers that keep accepts, oldest first, so that nothing depends on the order of a
// map. r.mu is held.
func (r *Runtime) sortedContainers(keep func(*container) bool) []*container {
	var some []*container
	for _, c := range r.state.containers {
		if keep(c) {
			some = append(some, c)
		}
	}
	slices.SortFunc(some, func(a, b *container) int { return cmp.Compare(a.createdAt, b.createdAt) })
	return some
}

// markStopped wakes all that wait for the container's end.
func (c *container) markStopped() {
	select {
	case <-c.stopped:
	default:
		close(c.stopped)
	}
}
