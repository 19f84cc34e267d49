package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const nestedMode = 0o755

// createMountPoints creates the directories in a volume at which other volumes of a container are mounted. The volume
// is mounted read-only, so the runtime could not.
func createMountPoints(volume *os.Root, pod *corev1.Pod, name string, fsGroup *int64) error {
	w := writer{root: volume, fsGroup: fsGroup}
	for _, dir := range mountPoints(pod, name) {
		at := ""
		for _, element := range strings.Split(dir, "/") {
			at = filepath.Join(at, element)
			if info, err := volume.Stat(at); err == nil && info.IsDir() {
				continue
			}
			err := volume.Mkdir(at, podDirMode)
			if err == nil {
				err = w.own(at, nestedMode, dataDirsMask)
			}
			if err != nil {
				return fmt.Errorf("unable to create nested volume mountpoints: %w", err)
			}
		}
	}
	return nil
}

// mountPoints returns the paths in a volume at which others are mounted, in any of the pod's containers, sorted. What
// is mounted in one of these is not among them.
func mountPoints(pod *corev1.Pod, name string) []string {
	var out []string
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			mounts := containers[i].VolumeMounts
			for _, own := range mounts {
				if own.Name == name {
					out = append(out, below(mounts, filepath.Join("/", own.MountPath))...)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// below returns the mount paths below a directory, relative to it and without those below another one of them.
func below(mounts []corev1.VolumeMount, dir string) []string {
	var nested []string
	for _, m := range mounts {
		if rel, ok := strings.CutPrefix(filepath.Join("/", m.MountPath), strings.TrimSuffix(dir, "/")+"/"); ok && rel != "" {
			nested = append(nested, rel)
		}
	}
	return slices.DeleteFunc(slices.Clone(nested), func(path string) bool {
		return slices.ContainsFunc(nested, func(other string) bool { return strings.HasPrefix(path, other+"/") })
	})
}
