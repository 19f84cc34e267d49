package mounts

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/ownmounts"
)

func TestMain(m *testing.M) { os.Exit(ownmounts.Main(m)) }

func TestAMountIsFoundThroughALinkAndWhatIsNoneIsNot(t *testing.T) {
	dir := t.TempDir()
	volume := filepath.Join(dir, "real", "volume")
	must.OK(t, os.MkdirAll(volume, 0o700))
	must.OK(t, os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link")))
	expect := func(path string, want bool) {
		t.Helper()
		if mounted, err := At(path); mounted != want || err != nil {
			t.Errorf("%s: got %v, %v", path, mounted, err)
		}
	}
	expect(volume, false)
	must.OK(t, unix.Mount("tmpfs", volume, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { _ = unix.Unmount(volume, unix.MNT_DETACH) })
	expect(volume, true)
	expect(filepath.Join(dir, "link", "volume"), true)
	expect(filepath.Dir(volume), false)
	expect(filepath.Join(volume, "no", "directory"), false)
}
