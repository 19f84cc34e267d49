package subpath

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// A container plants links in a volume that another one mounts read-only, with something mounted in it.
func TestNoLinkLeadsAMountPointOutOfItsVolume(t *testing.T) {
	for name, plant := range map[string]func(volume, outside string) error{
		"link":            func(v, out string) error { return os.Symlink(out, filepath.Join(v, "a")) },
		"relative link":   func(v, _ string) error { return os.Symlink("../outside", filepath.Join(v, "a")) },
		"link at the end": func(v, out string) error { return plantBelow(v, filepath.Join(out, "new")) },
		"link at nothing": func(v, _ string) error { return plantBelow(v, "missing") },
		"link by a process": func(v, _ string) error {
			return os.Symlink("/proc/self/root"+v+"/../outside", filepath.Join(v, "a"))
		},
	} {
		for _, mode := range []Mode{Find, Create} {
			base := t.TempDir()
			v, out := filepath.Join(base, "volume"), filepath.Join(base, "outside")
			must.OK(t, errors.Join(os.Mkdir(v, 0o777), os.Mkdir(out, 0o777)))
			must.OK(t, plant(v, out))
			for _, dir := range []bool{true, false} {
				if err := FindPoint(v, "a/b", dir, mode); err == nil {
					t.Errorf("%s: no error", name)
				}
			}
			if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
				t.Errorf("%s: outside there is %v, %v", name, entries, err)
			}
		}
	}
}

func plantBelow(volume, target string) error {
	err := os.Mkdir(filepath.Join(volume, "a"), 0o777)
	return errors.Join(err, os.Symlink(target, filepath.Join(volume, "a/b")))
}

func TestMountPointsAreCreatedForWhatIsMounted(t *testing.T) {
	v := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(v, "is"), 0o700))
	must.OK(t, os.Symlink("is", filepath.Join(v, "inside"))) // stays in the volume
	must.OK(t, unix.Mkfifo(filepath.Join(v, "fifo"), 0o600))
	for path, dir := range map[string]bool{"a/b/c": true, "a/b/d": false, "inside/e": false, "is/f": true, "fifo": false} {
		for range 2 {
			must.OK(t, FindPoint(v, path, dir, Create))
		}
		if info, err := os.Stat(filepath.Join(v, path)); err != nil || info.IsDir() != dir {
			t.Errorf("%s is %v, %v", path, info, err)
		}
	}
	// What a container has there stays.
	for path, dir := range map[string]bool{"is": false, "a/b/d": true, "a/b/d/below": false, "../x": true, ".": true} {
		if err := FindPoint(v, path, dir, Create); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
	must.OK(t, os.WriteFile(filepath.Join(v, "is/data"), nil, 0o600))
	if err := FindPoint(v, "is", false, Replace); !errors.Is(err, ErrNoPoint) {
		t.Errorf("a directory that is not empty: %v", err)
	}
}
