package cri

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
)

// prepareMounts creates the files that the agent mounts into a container, and returns all its mounts: volumes in the
// order of the manifest, the hosts file unless the container mounts its own, and the termination message file.
func (c *call) prepareMounts(ctx context.Context, in containerInput) ([]*runtimeapi.Mount, error) {
	if err := c.checkVolumes(ctx, in); err != nil {
		return nil, err
	}
	if err := c.checkDevices(ctx, in.devices); err != nil {
		return nil, err
	}
	volumes, err := c.volumeMounts(ctx, in)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(volumes)
	ownHosts := slices.ContainsFunc(out, func(m *runtimeapi.Mount) bool { return m.GetContainerPath() == hostsPath })
	if !ownHosts && (in.pod.Spec.HostNetwork || len(in.podIPs) > 0) {
		content, err := c.hostsContent(in.pod, in.podIPs)
		if err != nil {
			return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
		}
		path, err := c.opts.Volumes.WriteHosts(c.UID, content)
		if err != nil {
			return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
		}
		out = append(out, &runtimeapi.Mount{
			ContainerPath: hostsPath, HostPath: path, SelinuxRelabel: c.opts.Security.SELinux,
		})
	}
	if in.container.TerminationMessagePath != "" {
		path, err := c.opts.Volumes.CreateTerminationFile(c.UID, in.container.Name, in.attempt)
		if err != nil {
			return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
		}
		out = append(out, &runtimeapi.Mount{
			ContainerPath: absolute(in.container.TerminationMessagePath), HostPath: path,
			SelinuxRelabel: c.opts.Security.SELinux,
		})
	}
	if err := c.mountPoints(ctx, in, volumes, append(deviceMounts(in.devices), out...)); err != nil {
		return nil, err
	}
	return out, nil
}

// absolute returns a path as it is if it is absolute, otherwise below /.
func absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("/", path)
}

func propagationOf(mode *corev1.MountPropagationMode) (runtimeapi.MountPropagation, error) {
	if mode == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	}
	switch *mode {
	case corev1.MountPropagationNone:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	case corev1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case corev1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	}
	return 0, fmt.Errorf("mountPropagation %q is unknown; use None, HostToContainer or Bidirectional", *mode)
}
