package volume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/pod/subpath"
	"github.com/journalet/journalet/test/must"
)

// nested is a pod in whose ConfigMap others are mounted.
func nested() *corev1.Pod {
	pod := podWith(configMapVolume("conf", "conf"), emptyDir("inner", "", ""), emptyDir("other", "", ""))
	pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{
		{Name: "conf", MountPath: "/etc/conf/"}, {Name: "inner", MountPath: "/etc/conf/in/side"},
		{Name: "other", MountPath: "/etc/conf/in/side/deeper"}, {Name: "other", MountPath: "/etc/conf.d"},
	}}}
	return pod
}

func TestMountPointsInAVolumeAreOfTheirKind(t *testing.T) {
	d, _, _ := newKernelTest(t)
	pod := nested()
	if got := mountPoints(pod, "conf"); len(got) != 1 || got[0] != "in/side" {
		t.Errorf("mount points %v", got)
	}
	for range 2 {
		must.OK(t, setUp(t, d, pod))
	}
	conf := pathOf(t, d, pod, "conf")
	at := filepath.Join(conf, "in/side")
	point := subpath.MountPoint{Container: "c", Volume: "conf", Source: conf, Path: "in/side"}
	for _, dir := range []bool{true, true, false, false, true} { // the subPath that is mounted may change
		point.Dir = dir
		must.OK(t, d.CreateMountPoint(t.Context(), pod, point))
		if info, err := os.Lstat(at); err != nil || info.IsDir() != dir || info.Mode().Perm()&0o444 != 0o444 {
			t.Errorf("for a directory: %v; there is %v, %v", dir, info, err)
		}
	}
	// What is mounted there in another container would be unmounted.
	other := pod.Spec.Containers[0]
	other.Name = "other"
	pod.Spec.Containers = append(pod.Spec.Containers, other)
	point.Dir = false
	if err := d.CreateMountPoint(t.Context(), pod, point); !errors.Is(err, subpath.ErrNoPoint) {
		t.Errorf("got %v", err)
	}
}

// A mount on a file of the present contents would go with them.
func TestMountPointsStayWhenContentsChange(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must.OK(t, err)
	defer root.Close()
	points := []string{"extra", "sub/deep/extra", "sub/extra"}
	put := func(files map[string]string) {
		t.Helper()
		must.OK(t, createParents(root, points, nil))
		w := writer{ctx: t.Context(), root: root, files: texts(files), points: points}
		must.OK(t, w.write())
		for path, text := range files {
			if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != text {
				t.Errorf("%s is %q, %v; want %q", path, got, err, text)
			}
		}
	}
	put(map[string]string{
		"extra": "hidden", "a": "1", "sub/b": "1", "sub/deep/c": "1", "sub/extra": "hidden", "gone": "1",
	})
	at := map[string]os.FileInfo{}
	for _, p := range points {
		if p == "sub/deep/extra" {
			must.OK(t, subpath.FindPoint(dir, p, false, subpath.Create))
		}
		at[p], err = os.Lstat(filepath.Join(dir, p))
		must.OK(t, err)
	}
	put(map[string]string{"extra": "hidden 2", "a": "2", "sub/b": "2", "sub/deep/d": "2", "sub/deep/extra": "hidden 2"})
	for _, p := range points {
		if now, err := os.Lstat(filepath.Join(dir, p)); err != nil || !os.SameFile(now, at[p]) || !now.Mode().IsRegular() {
			t.Errorf("the mount point %s is another file: %v, %v", p, now, err)
		}
	}
	for _, path := range []string{"gone", "sub/deep/c"} {
		if _, err := os.Lstat(filepath.Join(dir, path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// Until its key came, a subPath of it was mounted as a directory.
func TestAFileTakesThePlaceOfAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, "key"), 0o755))
	must.OK(t, os.MkdirAll(filepath.Join(dir, "full/of"), 0o755))
	must.OK(t, write(t, dir, texts(map[string]string{"key": "1", "full": "1"})))
	if got, err := os.ReadFile(filepath.Join(dir, "key")); string(got) != "1" {
		t.Errorf("key is %q, %v", got, err)
	}
	if info, err := os.Lstat(filepath.Join(dir, "full")); err != nil || !info.IsDir() {
		t.Errorf("full is %v, %v", info, err)
	}
}

func TestMountPointsOfOthersVolumesAreNotCreated(t *testing.T) {
	d, _, root := newTest(t)
	host := filepath.Join(root, "host")
	must.OK(t, os.MkdirAll(filepath.Join(host, "dir"), 0o700))
	pod := podWith(volumeOf("v", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}))
	for path, dir := range map[string]bool{"missing": true, "missing/deeper": false, "dir": false} {
		err := d.CreateMountPoint(t.Context(), pod, subpath.MountPoint{
			Container: "c", Volume: "v", Source: host, Path: path, Dir: dir,
		})
		if !errors.Is(err, subpath.ErrNoPoint) {
			t.Errorf("%s: %v", path, err)
		}
	}
	must.OK(t, d.CreateMountPoint(t.Context(), pod, subpath.MountPoint{Volume: "v", Source: host, Path: "dir", Dir: true}))
	if all := names(t, host); len(all) != 1 {
		t.Errorf("there is %v", all)
	}
}
