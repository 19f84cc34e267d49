package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/pod/nfs"
)

// setUpNFS mounts an export for a pod. Its owner and mode stay: they are the server's. kubelet: the same.
func (d *Driver) setUpNFS(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	path := volumePath(nfsPlugin, v.Name)
	target := filepath.Join(d.PodDir(string(pod.UID)), path)
	open := func() (*os.File, error) {
		root, err := d.openPod(string(pod.UID), true)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		if err := createDir(root, path, podDirMode); err != nil {
			return nil, err
		}
		return root.Open(path)
	}
	err := d.opts.NFS.Mount(ctx, target, open, nfs.OfVolume(v.NFS))
	if errors.Is(err, nfs.ErrSource) {
		return permanent{err}
	}
	return err
}

// unmountNFS unmounts the exports of a pod, some at once: each may wait for its server. One that has a subpath left
// stays.
func (t *tearDown) unmountNFS(points []mountPoint) {
	points = slices.DeleteFunc(points, func(p mountPoint) bool {
		name, _ := t.volumeOf(p)
		return t.failed[name] != nil
	})
	slices.SortFunc(points, func(a, b mountPoint) int { return strings.Compare(a.path, b.path) })
	points = slices.CompactFunc(points, func(a, b mountPoint) bool { return a.path == b.path }) // Unmount ends them all
	errs := make([]error, len(points))
	var g errgroup.Group
	g.SetLimit(maxPluginCalls)
	for i, p := range points {
		g.Go(func() error {
			errs[i] = t.opts.NFS.Unmount(t.ctx, p.path)
			return nil
		})
	}
	began := time.Now()
	_ = g.Wait() // no member returns an error
	for i, p := range points {
		name, _ := t.volumeOf(p)
		t.took[name] += time.Since(began)
		switch err := errs[i]; {
		case errors.Is(err, unix.EBUSY):
			t.failed[name] = fmt.Errorf("unmount: %s is in use%s: %w", p.path, holdersAt(t.ctx, p), err)
		case err != nil:
			t.failed[name] = err
		}
	}
}

// isNFS reports whether a mount is an export that the agent has mounted, or shows one in another volume.
func (t *tearDown) isNFS(p mountPoint) bool {
	is, _ := t.exportOf(p)
	inVolume := within(p.path, filepath.Join(t.PodDir(t.uid), volumesDir))
	return is || inVolume && (p.fsType == "nfs" || p.fsType == "nfs4")
}

// exportOf reports whether a mount is at the directory of an NFS volume, whatever its file system is called, and
// whether it is of a further export below one, which the kernel mounts, and unmounts by itself.
func (t *tearDown) exportOf(p mountPoint) (is, below bool) {
	rel, err := filepath.Rel(filepath.Join(t.PodDir(t.uid), volumesDir, nfsPlugin), p.path)
	if err != nil || rel == "." || strings.HasPrefix(rel, "..") {
		return false, false
	}
	is = !strings.Contains(rel, "/")
	return is, !is && (p.fsType == "nfs" || p.fsType == "nfs4")
}
