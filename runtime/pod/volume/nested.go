package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/subpath"
)

const nestedMode = 0o755

// createParents creates the directories in a volume of contents below which others are mounted. The volume is mounted
// read-only, so the runtime could not. The mount points themselves are created by the start of a container, which knows
// whether they have to be files or directories.
func createParents(volume *os.Root, points []string, fsGroup *int64) error {
	w := writer{root: volume, fsGroup: fsGroup}
	for _, dir := range parentsOf(points) {
		info, err := volume.Lstat(dir)
		if err == nil && info.IsDir() {
			continue
		}
		if err == nil {
			err = volume.Remove(dir) // a link, from before something was mounted below it
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = volume.Mkdir(dir, podDirMode)
		}
		if err == nil {
			err = w.own(dir, nestedMode, dataDirsMask)
		}
		if err != nil {
			return fmt.Errorf("unable to create nested volume mountpoints: %w", err)
		}
	}
	return nil
}

// parentsOf returns the directories above these paths, each once, a directory before those below it.
func parentsOf(points []string) []string {
	var out []string
	for _, p := range points {
		for dir := filepath.Dir(p); dir != "."; dir = filepath.Dir(dir) {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// CreateMountPoint creates a mount point in a volume of the agent's own that a container mounts read-only. In another
// volume it creates nothing, and the error is subpath.ErrNoPoint if it is missing. It is subpath.ErrEscapes if the path
// leads out of the volume: the runtime follows it within the container.
func (d *Driver) CreateMountPoint(ctx context.Context, pod *corev1.Pod, p subpath.MountPoint) error {
	v := find(pod, p.Volume)
	mode := subpath.Find
	switch {
	case v == nil:
		return fmt.Errorf("the pod has no volume %q", p.Volume)
	case v.EmptyDir != nil:
		mode = subpath.Create // what a container has there stays
	case slices.Contains(plugins, pluginOf(v)):
		mode = subpath.Create
		if !sharesPoint(pod, p) {
			mode = subpath.Replace
		}
	}
	if mode == subpath.Find && (references.IsSetUpApart(v) || v.HostPath != nil) {
		key := "point " + p.Source + " " + p.Path
		_, err := bounded.Within(ctx, &d.answers, key, bounded.AnswerTimeout, func() (struct{}, error) {
			return struct{}{}, subpath.FindPoint(p.Source, p.Path, p.Dir, mode)
		})
		return err
	}
	if err := subpath.FindPoint(p.Source, p.Path, p.Dir, mode); err != nil || v.EmptyDir != nil {
		return err
	}
	volume, err := os.OpenRoot(p.Source)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer volume.Close()
	return fillPoint(volume, p.Path)
}

// sharesPoint reports whether another container of the pod has something mounted at the same place: what is removed
// there would be unmounted in that container.
func sharesPoint(pod *corev1.Pod, p subpath.MountPoint) bool {
	for c := range containers.All(pod) {
		if c.Name != p.Container && slices.Contains(pointsIn(c, p.Volume), p.Path) {
			return true
		}
	}
	return false
}

// mountPoints returns the paths in a volume at which others are mounted, in any of the pod's containers, sorted. What
// is mounted in one of these is not among them. Ephemeral containers do not count: for them, nothing in the volume
// moves.
func mountPoints(pod *corev1.Pod, name string) []string {
	var out []string
	for _, all := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			out = append(out, pointsIn(&all[i], name)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// pointsIn returns mountPoints of one container. A subPath of the volume has its own.
func pointsIn(c *corev1.Container, name string) []string {
	paths := subpath.RuntimeFiles()
	for _, m := range c.VolumeMounts {
		paths = append(paths, filepath.Join("/", m.MountPath))
	}
	if c.TerminationMessagePath != "" {
		paths = append(paths, filepath.Join("/", c.TerminationMessagePath))
	}
	var out []string
	for _, own := range c.VolumeMounts {
		if own.Name == name && own.SubPath == "" && own.SubPathExpr == "" {
			out = append(out, below(paths, filepath.Join("/", own.MountPath))...)
		}
	}
	return out
}

// below returns the mount paths below a directory, relative to it and without those below another one of them.
func below(paths []string, dir string) []string {
	var nested []string
	for _, path := range paths {
		if rel, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/"); ok && rel != "" {
			nested = append(nested, rel)
		}
	}
	return slices.DeleteFunc(slices.Clone(nested), func(path string) bool {
		return slices.ContainsFunc(nested, func(other string) bool { return strings.HasPrefix(path, other+"/") })
	})
}
