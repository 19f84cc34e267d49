package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/hostpath"
	"github.com/journalet/journalet/runtime/pod/mounts"
)

// Check returns an error if what the set-up of a volume has left is no longer there. It is for each start of a
// container: the runtime would create a directory instead, with the wrong mode and perhaps on the wrong medium, or in
// the place of a daemon's socket. Of a hostPath volume it checks the type again, and creates what its type allows to
// create. A volume whose server is away is bounded.ErrNoAnswer.
func (d *Driver) Check(ctx context.Context, pod *corev1.Pod, name string) error {
	v := find(pod, name)
	switch {
	case v == nil:
		return fmt.Errorf("the pod has no volume %q", name)
	case v.Image != nil:
		return nil // the runtime mounts it
	case v.HostPath != nil:
		return d.setUpHostPath(ctx, v.HostPath)
	}
	path, err := d.Path(pod, name)
	if err != nil {
		return err
	}
	if !references.IsSetUpApart(v) {
		return d.checkOwn(v, path)
	}
	_, err = bounded.Within(ctx, &d.answers, path, bounded.AnswerTimeout, func() (struct{}, error) {
		return struct{}{}, d.checkApart(pod, v, path)
	})
	return err
}

// setUpHostPath is hostpath.SetUp, on a file system whose server may be away.
func (d *Driver) setUpHostPath(ctx context.Context, source *corev1.HostPathVolumeSource) error {
	if source.Type == nil || *source.Type == corev1.HostPathUnset {
		return nil
	}
	_, err := bounded.Within(ctx, &d.answers, "hostPath "+source.Path, bounded.AnswerTimeout, func() (struct{}, error) {
		return struct{}{}, hostpath.SetUp(source)
	})
	if errors.Is(err, bounded.ErrNoAnswer) {
		return fmt.Errorf("hostPath type check failed: %s: %w", source.Path, err)
	}
	return err
}

// checkOwn checks a volume that the agent has created: its directory, what is mounted there, and the writer's link.
func (d *Driver) checkOwn(v *corev1.Volume, path string) error {
	want := ""
	if v.EmptyDir == nil || v.EmptyDir.Medium == corev1.StorageMediumMemory {
		want = tmpfs
	} else if v.EmptyDir.Medium != corev1.StorageMediumDefault {
		want = hugetlbfs
	}
	if v.ConfigMap != nil {
		want = ""
	}
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", path)
	}
	if err != nil {
		return err
	}
	if want != "" {
		kind, err := d.mounts.kindAt(path)
		if err == nil && kind != want {
			err = fmt.Errorf("no %s is mounted at %s", want, path)
		}
		if err != nil {
			return err
		}
	}
	if v.EmptyDir != nil {
		return nil
	}
	if info, err = os.Stat(filepath.Join(path, dataLink)); err == nil && !info.IsDir() {
		err = fmt.Errorf("%s of the volume leads to no directory", dataLink)
	}
	return err
}

// checkApart checks a volume of a CSI driver or of an NFS server.
func (d *Driver) checkApart(pod *corev1.Pod, v *corev1.Volume, path string) error {
	var err error
	if references.IsCSI(v) && d.opts.CSI != nil {
		err = d.opts.CSI.Check(string(pod.UID), v.Name)
	} else {
		var there bool
		if there, err = mounts.At(path); err == nil && !there {
			err = fmt.Errorf("nothing is mounted at %s", path)
		}
	}
	if err == nil {
		_, err = os.Lstat(path)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil // the server refuses the node's root, and perhaps not the container's user
	}
	return err
}
