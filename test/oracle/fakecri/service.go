package fakecri

import (
	"context"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Name and Version of the runtime. APIVersion is the only version that the kubelet accepts.
const (
	Name       = "fake"
	Version    = "1.0.0"
	APIVersion = "0.1.0"
)

// Service is the kubelet's interface to the runtime. A call of any other method panics.
type Service struct {
	internalapi.RuntimeService
	*Runtime
}

// Version returns the versions of the runtime.
func (s Service) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: APIVersion, RuntimeName: Name, RuntimeVersion: Version, RuntimeApiVersion: "v1",
	}, nil
}

// RunPodSandbox creates a sandbox.
func (s Service) RunPodSandbox(_ context.Context, c *runtimeapi.PodSandboxConfig, _ string) (string, error) {
	return s.runSandbox(c), nil
}

// StopPodSandbox stops one.
func (s Service) StopPodSandbox(_ context.Context, id string) error {
	s.stopSandbox(id)
	return nil
}

// RemovePodSandbox removes one.
func (s Service) RemovePodSandbox(_ context.Context, id string) error {
	s.removeSandbox(id)
	return nil
}

// PodSandboxStatus returns the status of one.
func (s Service) PodSandboxStatus(_ context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return s.sandboxStatus(id)
}

// ListPodSandbox lists them.
func (s Service) ListPodSandbox(_ context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return s.listSandboxes(f), nil
}

// CreateContainer creates a container.
func (s Service) CreateContainer(
	_ context.Context, id string, c *runtimeapi.ContainerConfig, sc *runtimeapi.PodSandboxConfig,
) (string, error) {
	return s.createContainer(id, c, sc)
}

// StartContainer starts one.
func (s Service) StartContainer(_ context.Context, id string) error { return s.startContainer(id) }

// StopContainer stops one.
func (s Service) StopContainer(_ context.Context, id string, timeout int64) error {
	return s.stopContainer(id, timeout)
}

// RemoveContainer removes one.
func (s Service) RemoveContainer(_ context.Context, id string) error {
	s.removeContainer(id)
	return nil
}

// ListContainers lists them.
func (s Service) ListContainers(_ context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return s.listContainers(f), nil
}

// ContainerStatus returns the status of one.
func (s Service) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	return s.containerStatus(id)
}

// UpdateContainerResources changes a container's resources.
func (s Service) UpdateContainerResources(_ context.Context, id string, r *runtimeapi.ContainerResources) error {
	return s.updateContainer(id, r.GetLinux())
}

// UpdatePodSandboxResources does nothing.
func (s Service) UpdatePodSandboxResources(
	context.Context, *runtimeapi.UpdatePodSandboxResourcesRequest,
) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}

// ExecSync runs a command in a container.
func (s Service) ExecSync(_ context.Context, id string, cmd []string, _ time.Duration) (out, problems []byte,
	err error) {
	return nil, nil, s.exec(id, cmd)
}

// ReopenContainerLog does nothing.
func (s Service) ReopenContainerLog(context.Context, string) error { return nil }

// Images is the kubelet's interface to the runtime's images.
type Images struct {
	internalapi.ImageManagerService
	*Runtime
}

// ImageStatus returns the status of an image, nil if it is not on the node.
func (i Images) ImageStatus(_ context.Context, spec *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse,
	error) {
	return i.imageStatus(spec), nil
}

// PullImage finds images that are on the node: there is no registry.
func (i Images) PullImage(
	_ context.Context, spec *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig,
) (string, error) {
	return i.pullImage(spec)
}

func (r *Runtime) imageStatus(spec *runtimeapi.ImageSpec) *runtimeapi.ImageStatusResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.ImageStatusResponse{Image: r.Images[spec.GetImage()]}
}

func (r *Runtime) pullImage(spec *runtimeapi.ImageSpec) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(&runtimeapi.PullImageRequest{Image: spec})
	image := r.Images[spec.GetImage()]
	if image == nil {
		return "", notFound("image", spec.GetImage())
	}
	return image.GetId(), nil
}
