package volume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

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
