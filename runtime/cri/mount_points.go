package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/pod/subpath"
)

// mountPoints creates what others are mounted at in the container's read-only volumes: there, the runtime can create
// nothing. volumes are the mounts of the manifest, in its order, all is those and every other mount.
func (c *call) mountPoints(ctx context.Context, in containerInput, volumes, all []*runtimeapi.Mount) error {
	for _, inner := range all {
		i := outermost(volumes, inner)
		if i < 0 {
			continue
		}
		dir, err := c.mountsDir(ctx, inner)
		if err != nil {
			return err
		}
		p := pointOf(in, volumes, i, inner.GetContainerPath(), dir)
		err = c.opts.Volumes.CreateMountPoint(ctx, in.pod, p)
		switch {
		case err == nil, errors.Is(err, subpath.ErrEscapes): // the runtime follows it, within the container
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			return calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, fmt.Sprintf(
				"%s cannot be mounted at %s: volumeMount %q at %s is read-only, and has no place for it (%v); create it in the "+
					"volume, or mount %q writable", nameOf(in, volumes, inner), inner.GetContainerPath(), p.Volume,
				volumes[i].GetContainerPath(), err, p.Volume))
		}
	}
	for _, path := range subpath.RuntimeFiles() {
		i := outermost(volumes, &runtimeapi.Mount{ContainerPath: path})
		if i < 0 || !isOwn(volumeOf(in.pod, in.container.VolumeMounts[i].Name)) {
			continue
		}
		p := pointOf(in, volumes, i, path, false)
		if _, err := os.Stat(filepath.Join(p.Source, p.Path)); !errors.Is(err, fs.ErrNotExist) {
			continue // what the volume has is the mount point
		}
		// Not every runtime mounts all of them: the runtime says what it lacks.
		if err := c.opts.Volumes.CreateMountPoint(ctx, in.pod, p); err != nil {
			c.Log.Warn("a file of the runtime has no mount point", "container", in.container.Name, "path", path, "error", err)
		}
	}
	return nil
}

// isOwn reports whether the agent has created a volume.
func isOwn(v *corev1.Volume) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// pointOf returns the mount point of a path of the container in the i-th of its volumes.
func pointOf(in containerInput, volumes []*runtimeapi.Mount, i int, path string, dir bool) subpath.MountPoint {
	rel, _ := belowOf(volumes[i], path)
	return subpath.MountPoint{
		Container: in.container.Name, Volume: in.container.VolumeMounts[i].Name, Source: volumes[i].GetHostPath(),
		Path: rel, Dir: dir,
	}
}

// outermost returns the number of the volume that contains a mount's mount point, if the volume is read-only and on the
// node; otherwise -1.
func outermost(volumes []*runtimeapi.Mount, inner *runtimeapi.Mount) int {
	best, most := -1, -1
	for i, m := range volumes {
		if _, is := belowOf(m, inner.GetContainerPath()); is && len(filepath.Clean(m.GetContainerPath())) > most {
			best, most = i, len(filepath.Clean(m.GetContainerPath()))
		}
	}
	if best < 0 || !volumes[best].GetReadonly() || volumes[best].GetHostPath() == "" {
		return -1
	}
	return best
}

// belowOf returns a path of the container relative to a mount; is reports whether it is below that.
func belowOf(outer *runtimeapi.Mount, path string) (rel string, is bool) {
	dir := strings.TrimSuffix(filepath.Clean(outer.GetContainerPath()), "/") + "/"
	rel, is = strings.CutPrefix(filepath.Clean(path), dir)
	return rel, is && rel != ""
}

// mountsDir reports whether a mount is of a directory. The runtime creates one where the source is missing.
func (c *call) mountsDir(ctx context.Context, m *runtimeapi.Mount) (bool, error) {
	if m.GetHostPath() == "" {
		return true, nil // an image
	}
	info, err := bounded.Within(ctx, c.answers, "kind "+m.GetHostPath(), bounded.AnswerTimeout,
		func() (os.FileInfo, error) { return os.Stat(m.GetHostPath()) })
	switch {
	case err == nil:
		return info.IsDir(), nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return true, nil
	}
	return false, calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME,
		fmt.Sprintf("what is mounted at %s cannot be inspected: %v", m.GetContainerPath(), err))
}

// nameOf names a mount for an error.
func nameOf(in containerInput, volumes []*runtimeapi.Mount, m *runtimeapi.Mount) string {
	for i := range volumes {
		if volumes[i] == m {
			return fmt.Sprintf("volumeMount %q", in.container.VolumeMounts[i].Name)
		}
	}
	switch m.GetContainerPath() {
	case hostsPath:
		return "the hosts file"
	case absolute(in.container.TerminationMessagePath):
		return "the termination message file"
	}
	return "what a device plugin mounts"
}
