package cri_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// The runtime cannot create what is mounted on in a read-only volume, and does not know how the manifest orders mounts.
func TestMountPointsExistBeforeTheyAreMountedOn(t *testing.T) {
	mounts := []corev1.VolumeMount{
		{Name: "file", MountPath: "/a/dir/file"},
		{Name: "inner", MountPath: "/a/dir", ReadOnly: true},
		{Name: "scratch", MountPath: "/a", ReadOnly: true},
		{Name: "file", MountPath: "/a/file"},
		{Name: "scratch", MountPath: "/b"},
		{Name: "file", MountPath: "/b/runtime"}, // it is writable: the runtime creates it
		{Name: "scratch", MountPath: "/etc", ReadOnly: true},
	}
	for _, reversed := range []bool{false, true} {
		r := newRig(t, nil)
		file := filepath.Join(r.dir, "file")
		must.OK(t, os.WriteFile(file, nil, 0o600))
		r.pod.Spec.Volumes = append(r.pod.Spec.Volumes,
			corev1.Volume{Name: "inner", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			corev1.Volume{Name: "file", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: file}}})
		r.pod.Spec.Containers[0].VolumeMounts = slices.Clone(mounts)
		r.pod.Spec.Containers[0].TerminationMessagePath = "/a/log"
		if reversed {
			slices.Reverse(r.pod.Spec.Containers[0].VolumeMounts)
		}
		sandbox := r.sandbox()
		r.done("v", setUpVolumes(), false)
		r.done("c", startContainer(sandbox, 0), false)
		volumes := filepath.Join(r.dir, "root/pods", uid, "volumes/kubernetes.io~empty-dir")
		for path, dir := range map[string]bool{
			"scratch/dir": true, "scratch/file": false, "scratch/log": false, "inner/file": false,
			"scratch/hosts": false, "scratch/resolv.conf": false, "scratch/hostname": false,
		} {
			if info, err := os.Lstat(filepath.Join(volumes, path)); err != nil || info.IsDir() != dir {
				t.Errorf("%s is %v, %v", path, info, err)
			}
		}
		for _, path := range []string{"scratch/runtime", "scratch/dir/file"} {
			if _, err := os.Lstat(filepath.Join(volumes, path)); err == nil {
				t.Errorf("%s is created", path)
			}
		}
	}
}

func TestAMountWithoutAPlaceNamesBothMounts(t *testing.T) {
	r := newRig(t, nil)
	host := filepath.Join(r.dir, "host")
	must.OK(t, os.Mkdir(host, 0o700))
	r.pod.Spec.Volumes = append(r.pod.Spec.Volumes, corev1.Volume{Name: "outer", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: host}}})
	r.pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "scratch", MountPath: "/a/inner"}, {Name: "outer", MountPath: "/a", ReadOnly: true},
	}
	sandbox := r.sandbox()
	r.done("v", setUpVolumes(), false)
	out := r.perform("c", startContainer(sandbox, 0), false)
	if out.GetError() != journaletv1.CallError_CALL_ERROR_CONFIG || !out.GetRetryable() {
		t.Errorf("the start ends in %v", out)
	}
	for _, text := range []string{`volumeMount "scratch"`, "/a/inner", `volumeMount "outer" at /a is read-only`} {
		if !strings.Contains(out.GetMessage(), text) {
			t.Errorf("%q is not in %q", text, out.GetMessage())
		}
	}
	must.OK(t, os.Mkdir(filepath.Join(host, "inner"), 0o700))
	r.done("d", startContainer(sandbox, 0), false)
}
