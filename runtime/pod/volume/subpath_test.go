package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/pod/subpath"
	"github.com/journalet/journalet/test/must"
)

func TestSubPathIsUnmountedBeforeItsVolume(t *testing.T) {
	d := New(Options{RootDir: t.TempDir()})
	pod := podWith(emptyDir("mem", "Memory", "1Mi"), emptyDir("disk", "", ""))
	d.SetUp(t.Context(), pod, nil)
	for i, v := range pod.Spec.Volumes {
		at, err := d.MountSubPath(pod, "main", i, v.Name, "a/b")
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(at, "f"), nil, 0o600))
		path, err := d.Path(pod, v.Name)
		must.OK(t, err)
		if _, err := os.Lstat(filepath.Join(path, "a/b/f")); err != nil {
			t.Errorf("the mount shows another directory: %v", err)
		}
		must.OK(t, os.Symlink("/etc", filepath.Join(path, "link")))
		if _, err := d.MountSubPath(pod, "main", i, v.Name, "link"); !errors.Is(err, subpath.ErrEscapes) {
			t.Errorf("a link out of the volume: %v", err)
		}
	}
	if points, err := d.mounts.below(d.PodDir("u1")); err != nil || len(points) != 3 {
		t.Errorf("mounts %v, %v", points, err)
	}
	outcomes, err := d.TearDown(t.Context(), "u1")
	must.OK(t, err)
	for _, o := range outcomes {
		if o.GetMessage() != "" {
			t.Error(o.GetMessage())
		}
	}
	if points, err := d.mounts.below(d.PodDir("u1")); err != nil || len(points) != 0 {
		t.Errorf("mounts %v are left, %v", points, err)
	}
}

// bindAgain does what a runtime does with a mount when it starts a container: it binds it once more.
func bindAgain(t *testing.T, mounted string) error {
	t.Helper()
	to := filepath.Join(t.TempDir(), "to")
	info, err := os.Lstat(mounted)
	must.OK(t, err)
	if info.IsDir() {
		must.OK(t, os.Mkdir(to, 0o700))
	} else {
		must.OK(t, os.WriteFile(to, nil, 0o600))
	}
	if err := unix.Mount(mounted, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Unmount(to, 0)
}

// filesBelow returns the content of every file below a directory that is in contents, in no order.
func filesBelow(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	must.OK(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, string(data))
		return err
	}))
	return strings.Join(all, " ")
}

// A container is created with the mount of a file, and started after the object has changed. The runtime binds the file
// at the start, and the kernel binds none that is removed (kubernetes/kubernetes#127602).
func TestFileOfASubPathStaysMountableWhenItsVolumeChanges(t *testing.T) {
	d, objects, _ := newKernelTest(t)
	pod := podWith(configMapVolume("conf", "conf"), secretVolume("keys", "keys"),
		volumeOf("both", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"},
				Items: []corev1.KeyToPath{{Key: "key", Path: "dir/key"}, {Key: "cert", Path: "cert"}}}},
		}}}))
	change := func(n int) {
		objects.configMaps["conf"].Data = map[string]string{"a": fmt.Sprint("A", n), "b": fmt.Sprint("B", n)}
		objects.secrets["keys"].Data = map[string][]byte{"key": fmt.Append(nil, "K", n), "cert": fmt.Append(nil, "C", n)}
		for _, o := range d.SetUp(t.Context(), pod, nil) {
			if o.GetMessage() != "" {
				t.Error(o.GetMessage())
			}
		}
	}
	change(1)
	for i, c := range []struct{ volume, path, first, other string }{
		{"conf", "a", "A1", "B1"}, {"keys", "key", "K1", "C1"}, {"both", "dir", "K1", "C1"}, {"both", "dir/key", "K1", "C1"},
	} {
		change(1)
		at, err := d.MountSubPath(pod, "main", i, c.volume, c.path)
		must.OK(t, err)
		change(2)
		change(3)
		if err := bindAgain(t, at); err != nil {
			t.Errorf("%s of %s cannot be mounted after a change: %v", c.path, c.volume, err)
		}
		if got := filesBelow(t, at); got != c.first {
			t.Errorf("%s of %s shows %q, want %q", c.path, c.volume, got, c.first)
		}
		left := filesBelow(t, pathOf(t, d, pod, c.volume))
		if strings.Contains(left, c.other) || strings.Contains(left, "2") {
			t.Errorf("%s has %q: what is not mounted of earlier contents is left", c.volume, left)
		}
		// The container starts again: it gets the new file, and the old one goes with the next change.
		at, err = d.MountSubPath(pod, "main", i, c.volume, c.path)
		must.OK(t, err)
		change(4)
		if got := filesBelow(t, at); !strings.HasSuffix(got, "3") {
			t.Errorf("%s of %s shows %q after a restart", c.path, c.volume, got)
		}
		if left := filesBelow(t, pathOf(t, d, pod, c.volume)); strings.Contains(left, c.first) {
			t.Errorf("%s has %q: no container mounts the first file any more", c.volume, left)
		}
	}
}

// The two run beside each other: the set-up of volumes excludes no start of a container.
func TestSubPathIsMountedWhileItsVolumeChanges(t *testing.T) {
	d, objects, _ := newKernelTest(t)
	pod := podWith(configMapVolume("conf", "conf"))
	d.SetUp(t.Context(), pod, nil)
	const times = 100
	var wait sync.WaitGroup
	wait.Go(func() {
		for n := range times {
			objects.configMaps["conf"].Data = map[string]string{"a": fmt.Sprint("A", n)}
			d.SetUp(t.Context(), pod, nil)
		}
	})
	for range times {
		at, err := d.MountSubPath(pod, "main", 0, "conf", "a")
		must.OK(t, err)
		must.OK(t, bindAgain(t, at))
	}
	wait.Wait()
}
