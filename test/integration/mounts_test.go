//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

func TestPathsAndImagesAreMounted(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	host := filepath.Join(a.Dir, "host")
	inner := filepath.Join(host, "inner")
	must.OK(t, os.MkdirAll(inner, 0o777))
	must.OK(t, unix.Mount("tmpfs", inner, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { must.OK(t, unix.Unmount(inner, unix.MNT_DETACH)) })
	recursive, possible := corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible
	a.put(newPod("mounts", idle, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}},
			{Name: "image", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: node.Image}}},
		}
		c := &p.Spec.Containers[0]
		c.Env = []corev1.EnvVar{{Name: "NAME", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}
		c.VolumeMounts = []corev1.VolumeMount{
			{Name: "disk", MountPath: "/all"}, {Name: "disk", MountPath: "/sub", SubPath: "a/b"},
			{Name: "disk", MountPath: "/expr", SubPathExpr: "of/$(NAME)"},
			{Name: "image", MountPath: "/image"}, {Name: "image", MountPath: "/programs", SubPath: "bin"},
			{Name: "host", MountPath: "/read", ReadOnly: true},
			{Name: "host", MountPath: "/never", ReadOnly: true, RecursiveReadOnly: &recursive},
			{Name: "host", MountPath: "/possible", ReadOnly: true, RecursiveReadOnly: &possible},
		}
	}))
	a.start()
	p := a.pod("mounts", "ready", ready)
	sh := func(script string) string {
		return setup.Runtime.Exec(t, container(p, "main").ContainerID, "sh", "-c", script)
	}
	writes := func(path string) string { return sh("touch " + path + " 2>/dev/null && echo written || echo refused") }
	sh("echo one >/sub/f; echo two >/expr/f")
	equal(t, "a file below subPath and subPathExpr", sh("cat /all/a/b/f /all/of/default/f"), "one\ntwo")
	equal(t, "a program of the image", sh("/image/bin/busybox echo runs"), "runs")
	equal(t, "a program below a path of the image", sh("/programs/busybox echo runs"), "runs")
	equal(t, "a write to an image", writes("/image/x"), "refused")
	equal(t, "a write to a mount below a read-only one", writes("/read/inner/x"), "written")
	equal(t, "a write to one below a recursively read-only one", writes("/never/inner/x"), "refused")

	modes := map[string]corev1.RecursiveReadOnlyMode{"/read": corev1.RecursiveReadOnlyDisabled, "/never": recursive}
	modes["/possible"] = corev1.RecursiveReadOnlyDisabled
	if strings.TrimSpace(writes("/possible/inner/x")) == "refused" {
		modes["/possible"] = recursive
	}
	for _, m := range container(p, "main").VolumeMounts {
		if mode := modes[m.MountPath]; m.ReadOnly != (mode != "") || m.ReadOnly && *m.RecursiveReadOnly != mode {
			t.Errorf("the status of mount %s is %+v, want mode %q", m.MountPath, m, mode)
		}
	}

	before := mountsBelow(t, a.Root)
	if n := strings.Count(before, "/volume-subpaths/"); n != 2 {
		t.Errorf("%d mounts of paths, want 2:\n%s", n, before)
	}
	a.crash()
	setup.Runtime.Exec(t, container(p, "main").ContainerID, "sh", "-c", "kill -9 -1")
	p = a.pod("mounts", "restarted", func(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount > 0 })
	equal(t, "a file of the instance before", sh("cat /sub/f /expr/f"), "one\ntwo")
	if after := mountsBelow(t, a.Root); after != before {
		t.Errorf("the mount table is\n%s\nbefore\n%s", after, before)
	}
	a.unmounts("mounts")
}

func TestMissingImageOfAVolumeHoldsUpItsContainersOnly(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	a.put(newPod("image", idle, with(shell("other", idle)), func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: "127.0.0.1:1/none:1"}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}))
	a.start()
	p := a.pod("image", "waiting for the image", func(p *corev1.Pod) bool {
		w := container(p, "main").State.Waiting
		return w != nil && w.Reason == "ImagePullBackOff" && container(p, "other").State.Running != nil
	})
	if m := container(p, "main").State.Waiting.Message; !strings.Contains(m, `"127.0.0.1:1/none:1"`) {
		t.Errorf("the container waits with the message %q", m)
	}
}
