package cri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri/expand"
	"github.com/journalet/journalet/runtime/pod/hostpath"
	"github.com/journalet/journalet/runtime/pod/subpath"
)

// volumeMounts returns the mounts of the container's volumes, in the order of the manifest. The messages are the
// kubelet's.
func (c *call) volumeMounts(ctx context.Context, in containerInput) ([]*runtimeapi.Mount, error) {
	var out []*runtimeapi.Mount
	for i := range in.container.VolumeMounts {
		m, err := c.volumeMount(ctx, in, i)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// volumeMount returns the i-th mount of the container.
func (c *call) volumeMount(ctx context.Context, in containerInput, i int) (*runtimeapi.Mount, error) {
	m := &in.container.VolumeMounts[i]
	sub, err := subPathOf(in, m)
	if err != nil {
		return nil, configError(ctx, in.container, err)
	}
	v := volumeOf(in.pod, m.Name)
	if v == nil {
		return nil, calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG,
			fmt.Sprintf("cannot find volume %q to mount into container %q", m.Name, in.container.Name))
	}
	out := &runtimeapi.Mount{
		ContainerPath: absolute(m.MountPath), Readonly: m.ReadOnly || isReadOnly(v), SelinuxRelabel: c.relabels(in.pod, v),
	}
	if v.Image != nil {
		out.Image, err = c.volumeImage(ctx, in.pod, v.Image.Reference, in.pulled)
		out.ImageSubPath = sub
	} else {
		out.HostPath, err = c.hostPathOf(in, i, v, sub)
	}
	if err != nil {
		return nil, err
	}
	if out.Propagation, err = propagationOf(m.MountPropagation); err != nil {
		return nil, calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG, fmt.Sprintf("volume mount %q: %v", m.Name, err))
	}
	out.RecursiveReadOnly, err = c.recursiveReadOnly(ctx, in.pod, m)
	return out, err
}

// blockDevices returns the volumes that the container has as block devices, in the order of the manifest.
func (c *call) blockDevices(in containerInput) ([]*runtimeapi.Device, error) {
	var out []*runtimeapi.Device
	for _, d := range in.container.VolumeDevices {
		v := volumeOf(in.pod, d.Name)
		if v == nil {
			return nil, calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG,
				fmt.Sprintf("cannot find volume %q to pass into container %q", d.Name, in.container.Name))
		}
		path, err := c.opts.Volumes.Path(in.pod, d.Name)
		if err != nil {
			return nil, calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
		}
		if info, err := os.Stat(path); err != nil || !hostpath.IsBlockDevice(info.Mode()) {
			return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME,
				fmt.Sprintf("volume %q is no block device on the node (%v)", d.Name, err))
		}
		permissions := "mrw" // kubelet: the same
		if isReadOnly(v) {
			permissions = "r"
		}
		out = append(out, &runtimeapi.Device{ContainerPath: d.DevicePath, HostPath: path, Permissions: permissions})
	}
	return out, nil
}

// subPathOf returns the path in the volume that is mounted; "" for the volume itself.
func subPathOf(in containerInput, m *corev1.VolumeMount) (string, error) {
	sub := m.SubPath
	if m.SubPathExpr != "" {
		var err error
		if sub, err = expandSubPath(m.SubPathExpr, in.envs); err != nil {
			return "", err
		}
	}
	switch {
	case filepath.IsAbs(sub):
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", sub)
	case slices.Contains(strings.Split(sub, "/"), ".."):
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", sub)
	}
	return sub, nil
}

// expandSubPath replaces references to variables in a subPathExpr. One that is missing or empty is an error: the mount
// would be of another path than its author means.
func expandSubPath(expr string, envs []*runtimeapi.KeyValue) (string, error) {
	missing := map[string]bool{}
	text, err := new(expand.Budget).Argument(expr, func(name string) (string, bool) {
		i := slices.IndexFunc(envs, func(kv *runtimeapi.KeyValue) bool { return kv.GetKey() == name })
		if i < 0 || len(envs[i].GetValue()) == 0 {
			missing[name] = true
			return "", true
		}
		return string(envs[i].GetValue()), true
	})
	switch {
	case len(missing) > 0:
		return "", fmt.Errorf("missing value for %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	case err != nil:
		return "", fmt.Errorf("subPathExpr %w", err)
	}
	return text, nil
}

// hostPathOf returns the path on the node of the i-th mount.
func (c *call) hostPathOf(in containerInput, i int, v *corev1.Volume, sub string) (string, error) {
	path, err := c.opts.Volumes.Path(in.pod, v.Name)
	if err != nil {
		return "", calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	if sub == "" {
		return path, nil
	}
	path, err = c.opts.Volumes.MountSubPath(in.pod, in.container.Name, i, v.Name, sub)
	if err == nil {
		return path, nil
	}
	// The error itself goes to the log only: it names what is on the node.
	c.Log.Warn("subPath cannot be mounted", "container", in.container.Name, "volume", v.Name,
		"subPath", c.Redact(sub), "error", c.Redact(err.Error()))
	if errors.Is(err, subpath.ErrGone) {
		return "", calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME, fmt.Sprintf(
			"failed to prepare subPath for volumeMount %q of container %q: subPath %q: %v",
			v.Name, in.container.Name, sub, subpath.ErrGone))
	}
	what := "failed to prepare subPath for"
	if errors.Is(err, subpath.ErrCreate) {
		what = "failed to create subPath directory for"
	}
	return "", calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG,
		fmt.Sprintf("%s volumeMount %q of container %q", what, v.Name, in.container.Name))
}

// isReadOnly reports whether containers may not write a volume whatever their mounts ask for: the agent or the runtime
// owns its contents, or the volume itself says so.
func isReadOnly(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil || v.Image != nil ||
		v.NFS != nil && v.NFS.ReadOnly || v.CSI != nil && v.CSI.ReadOnly != nil && *v.CSI.ReadOnly ||
		v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
}

func volumeOf(pod *corev1.Pod, name string) *corev1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}

// volumeImage returns the image of an image volume. It must be on the node: pulling is the work of another intent.
func (c *call) volumeImage(
	ctx context.Context, pod *corev1.Pod, reference string, pulled []string,
) (*runtimeapi.ImageSpec, error) {
	info, err := c.imageOf(ctx, pod, reference, slices.Contains(pulled, reference))
	if f := new(calls.Failure); errors.As(err, &f) && f.Code == journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT {
		f.MissingImage = reference
	}
	if err != nil {
		return nil, err
	}
	handler, err := c.handlerOf(pod)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ImageSpec{
		Image: info.ref, UserSpecifiedImage: reference, Annotations: pod.Annotations, RuntimeHandler: handler,
	}, nil
}

// recursiveReadOnly reports whether the mounts below a mount are read-only, too.
func (c *call) recursiveReadOnly(ctx context.Context, pod *corev1.Pod, m *corev1.VolumeMount) (bool, error) {
	refuse := func(why string) (bool, error) {
		return false, calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, fmt.Sprintf(
			"failed to resolve recursive read-only mode: volume %q requested recursive read-only mode, but it is %s",
			m.Name, why))
	}
	switch {
	case m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled:
		return false, nil
	case !m.ReadOnly:
		return refuse("not read-only")
	case m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone:
		return refuse(fmt.Sprintf("not compatible with propagation %q", *m.MountPropagation))
	}
	// It is asked each time: the runtime may have been upgraded.
	st, err := retry(ctx, c, "Status", c.opts.Timeouts.Inspect, c.rt.Status, &runtimeapi.StatusRequest{})
	if err != nil {
		return false, err
	}
	handler, err := c.handlerOf(pod)
	if err != nil {
		return false, err
	}
	can := false
	for _, h := range st.GetRuntimeHandlers() {
		if h.GetName() == handler {
			can = h.GetFeatures().GetRecursiveReadOnlyMounts()
		}
	}
	if !can && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled {
		return refuse("not supported by the runtime")
	}
	return can, nil
}
