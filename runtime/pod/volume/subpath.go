package volume

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/subpath"
)

// MountSubPath mounts a path of a volume for the mount number index of a container, and returns where. Package subpath
// documents what it guards against. TearDown unmounts it. In a volume whose server is away it fails with
// bounded.ErrNoAnswer.
func (d *Driver) MountSubPath(
	pod *corev1.Pod, container string, index int, volumeName, path string,
) (string, error) {
	dir, err := d.Path(pod, volumeName)
	if err != nil {
		return "", err
	}
	if err := checkNames(string(pod.UID)); err != nil {
		return "", fmt.Errorf("mount a subPath: %w", err)
	}
	prepare := func() (string, error) {
		return subpath.Prepare(subpath.Path{
			PodDir: d.PodDir(string(pod.UID)), Volume: volumeName, VolumePath: dir,
			Container: container, Index: index, SubPath: path,
		})
	}
	v := find(pod, volumeName)
	if hasContents(v) {
		d.contents.LockKey(string(pod.UID))
		defer func() { _ = d.contents.UnlockKey(string(pod.UID)) }()
	}
	if v == nil || !references.IsSetUpApart(v) {
		return prepare()
	}
	// A mount that appears later is found by the tear-down, or by the next attempt.
	key := fmt.Sprintf("%s %s %d", dir, container, index)
	return bounded.Within(context.Background(), &d.answers, key, bounded.AnswerTimeout, prepare)
}

// hasContents reports whether the agent writes the files of a volume, and replaces them when objects change.
func hasContents(v *corev1.Volume) bool {
	return v != nil && v.EmptyDir == nil && v.NFS == nil && pluginOf(v) != ""
}
