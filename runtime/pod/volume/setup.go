package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/persistentvolume"
)

// SetUp sets up the volumes that req names, or brings volumes that are set up to their newer contents. It returns an
// outcome for each, in the order of req. A volume that fails does not stop the others. pod has the allocated resources.
// It is idempotent. Without names it sets up all volumes of the pod.
//
// If ctx ends, the outcomes of the volumes after that are failures with its error, and may be retried. If the
// directories of a pod without volumes cannot be created, there is one outcome, without a name.
func (d *Driver) SetUp(
	ctx context.Context, pod *corev1.Pod, req *journaletv1.SetUpVolumes,
) []*journaletv1.VolumeOutcome {
	names := make([]string, 0, len(req.GetVolumes()))
	for _, v := range req.GetVolumes() {
		names = append(names, v.GetName())
	}
	if len(names) == 0 {
		for i := range pod.Spec.Volumes {
			names = append(names, pod.Spec.Volumes[i].Name)
		}
	}
	dirs := d.CreatePodDirs(string(pod.UID))
	if dirs != nil && len(names) == 0 {
		return []*journaletv1.VolumeOutcome{outcome("", "set up the directories of the pod%.0s: %v", dirs)}
	}
	outcomes := make([]*journaletv1.VolumeOutcome, len(names))
	var plugins errgroup.Group
	plugins.SetLimit(maxPluginCalls)
	for i, name := range names {
		setUp := func() error {
			err := dirs
			if err == nil {
				err = d.setUp(ctx, pod, name)
			}
			outcomes[i] = outcome(name, failure(pod, name), err)
			return nil
		}
		if v := find(pod, name); v != nil && references.IsSetUpApart(v) {
			plugins.Go(setUp)
		} else {
			_ = setUp()
		}
	}
	_ = plugins.Wait()
	return outcomes
}

// failure returns the format of a set-up that failed: kubelet: MountVolume.SetUp of files, MapVolume.MapPodDevice of a
// block device.
func failure(pod *corev1.Pod, name string) string {
	if containers.HasDevice(pod, name) {
		return "MapVolume.MapPodDevice failed for volume %q : %v"
	}
	return "MountVolume.SetUp failed for volume %q : %v"
}

// maxPluginCalls bounds how many volumes of CSI drivers and NFS servers of a pod are set up or unmounted at once: each
// waits for one of these.
const maxPluginCalls = 8

func (d *Driver) setUp(ctx context.Context, pod *corev1.Pod, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v := find(pod, name)
	if v == nil {
		return permanent{fmt.Errorf("the pod has no volume %q", name)}
	}
	if references.IsCSI(v) && d.opts.CSI != nil {
		return d.opts.CSI.SetUp(ctx, pod, v)
	}
	if v.HostPath == nil && v.Image == nil && pluginOf(v) == "" {
		return unsupported(name)
	}
	if err := checkNames(name); err != nil {
		return permanent{err}
	}
	began := time.Now()
	err := d.setUpHere(ctx, pod, v)
	d.observe(ctx, PluginName(v), string(persistentvolume.OpMount), time.Since(began), err)
	return err
}

// setUpHere sets up a volume of a kind that the driver has itself.
func (d *Driver) setUpHere(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	if v.HostPath != nil {
		return d.setUpHostPath(ctx, v.HostPath)
	}
	if v.Image != nil {
		return nil // the runtime mounts it
	}
	if v.NFS != nil {
		return d.setUpNFS(ctx, pod, v)
	}
	if v.EmptyDir == nil {
		return d.setUpContents(ctx, pod, v, volumePath(pluginOf(v), v.Name))
	}
	root, err := d.openPod(string(pod.UID), true)
	if err != nil {
		return err
	}
	defer root.Close()
	return d.setUpEmptyDir(root, pod, v.EmptyDir, volumePath(pluginOf(v), v.Name))
}

// permanent is an error that only another manifest ends.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

func unsupported(name string) error {
	return permanent{fmt.Errorf("volume %q is of a kind that this node cannot set up; use %s", name, supportedKinds)}
}

// outcome is the outcome of the set-up or the tear-down of a volume. The format takes its name and the error.
func outcome(name, format string, err error) *journaletv1.VolumeOutcome {
	if err == nil {
		return &journaletv1.VolumeOutcome{Name: name}
	}
	var p permanent
	return &journaletv1.VolumeOutcome{
		Name: name, Message: fmt.Sprintf(format, name, err), Retryable: !errors.As(err, &p),
		AttachLimitExceeded: errors.Is(err, persistentvolume.ErrAttachLimit),
	}
}
