package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
)

// bindFile mounts a file at another one.
func bindFile(t *testing.T, from, to string) {
	t.Helper()
	must.OK(t, os.WriteFile(to, nil, 0o600))
	must.OK(t, unix.Mount(from, to, "", unix.MS_BIND, ""))
}

// In a volume that propagates its mounts is, after its container has ended, what the runtime has mounted for that.
func TestMountsThatShowThePodsOwnFilesGo(t *testing.T) {
	d, _, dir := newKernelTest(t)
	host := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(host, "part"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(host, "part/kept"), nil, 0o600))
	pod := podWith(emptyDir("outer", "", ""), emptyDir("disk", "", ""), emptyDir("mem", corev1.StorageMediumMemory, "1Mi"),
		secretVolume("keys", "keys"), configMapVolume("conf", "conf"), hostPath(host, corev1.HostPathDirectory))
	must.OK(t, setUp(t, d, pod))
	outer := pathOf(t, d, pod, "outer")
	for attempt := range 2 { // the container was restarted
		for _, name := range []string{"disk", "mem", "keys", "conf"} {
			bind(t, pathOf(t, d, pod, name), filepath.Join(outer, name))
		}
		message, err := d.CreateTerminationFile("u1", "c", uint32(attempt))
		must.OK(t, err)
		bindFile(t, message, filepath.Join(outer, "message"))
	}
	first := func(attempt uint32) (bool, error) { return attempt == 0, nil }
	must.OK(t, d.RemoveInstances("default", "web", "u1", "c", first))
	bind(t, filepath.Join(host, "part"), filepath.Join(dir, "pods/u1/volume-subpaths/h/c/0"))
	bind(t, filepath.Join(host, "part"), filepath.Join(outer, "disk/part"))
	elsewhere := filepath.Join(host, "shared")
	bind(t, pathOf(t, d, pod, "disk"), elsewhere)
	must.OK(t, clean(t.Context(), d, "u1", "default", "web"))
	if left := mountTableOf(t, dir) + mountTableOf(t, host); left != "" {
		t.Errorf("mounts are left: %s", left)
	}
	if _, err := os.Stat(filepath.Join(host, "part/kept")); err != nil {
		t.Error("removed through a mount")
	}
}

// Beside the pod's own files a volume has a mount of the same file system that shows others.
func TestMountBesideThePodsDirectoryIsOfOthers(t *testing.T) {
	d, _, dir := newKernelTest(t)
	pod := podWith(emptyDir("outer", "", ""), emptyDir("disk", "", ""))
	must.OK(t, setUp(t, d, pod))
	beside := filepath.Join(dir, "pods/u12")
	must.OK(t, os.Mkdir(beside, 0o700))
	must.OK(t, os.WriteFile(filepath.Join(beside, "kept"), nil, 0o600))
	own, others := filepath.Join(pathOf(t, d, pod, "outer"), "own"), filepath.Join(pathOf(t, d, pod, "outer"), "others")
	bind(t, pathOf(t, d, pod, "disk"), own)
	bind(t, beside, others)
	bind(t, dir, filepath.Join(dir, "aside")) // shows the pod's directory among others
	t.Cleanup(func() {
		must.OK(t, errors.Join(unix.Unmount(own, 0), unix.Unmount(others, 0), unix.Unmount(filepath.Join(dir, "aside"), 0)))
		must.OK(t, clean(context.Background(), d, "u1", "default", "web"))
	})
	outcomes, err := d.Clean(t.Context(), "u1", "default", "web")
	must.OK(t, err)
	failed := messagesOf(outcomes)
	if !strings.Contains(failed["outer"], "1 mounts are left") || !strings.Contains(failed["outer"], others) {
		t.Errorf("volume outer: %q", failed["outer"])
	}
	if _, err := os.Stat(filepath.Join(beside, "kept")); err != nil {
		t.Error("removed through a mount")
	}
	if table := mountTableOf(t, dir); strings.Count(table, "\n") != 3 {
		t.Errorf("mounts: %s", table)
	}
}
