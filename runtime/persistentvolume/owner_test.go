package persistentvolume

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// chownTree gives the files below dir to group 1234.
func chownTree(t *testing.T, dir string) error {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must.OK(t, err)
	defer root.Close()
	return chown(t.Context(), root, 1234, new(atomic.Int64))
}

func TestAGroupGetsWhatTheKubeletGivesIt(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	must.OK(t, os.WriteFile(outside, nil, 0o600))
	deep := strings.TrimSuffix(strings.Repeat("d/", 100), "/")
	must.OK(t, os.MkdirAll(filepath.Join(dir, deep), 0o700))
	must.OK(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must.OK(t, os.Symlink(outside, filepath.Join(dir, "link")))
	const links = fs.ModeSymlink | 0o777
	want := map[string]fs.FileMode{
		".": fs.ModeDir | fs.ModeSetgid | 0o775, "fifo": fs.ModeNamedPipe | 0o660, "link": links,
		"d": fs.ModeDir | fs.ModeSetgid | 0o770, deep: fs.ModeDir | fs.ModeSetgid | 0o770,
		"sticky": fs.ModeDir | fs.ModeSetgid | fs.ModeSticky | 0o777,
	}
	must.OK(t, os.Mkdir(filepath.Join(dir, "sticky"), 0o700))
	must.OK(t, os.Chmod(filepath.Join(dir, "sticky"), fs.ModeSticky|0o777))
	must.OK(t, os.Chmod(dir, 0o755))
	for name, mode := range map[string][2]fs.FileMode{
		"plain": {0o644, 0o664}, "read": {0o400, 0o660}, "setuid": {fs.ModeSetuid | 0o755, fs.ModeSetuid | 0o775},
		"setgid": {fs.ModeSetgid | 0o755, fs.ModeSetgid | 0o775}, deep + "/f": {0, 0o660},
	} {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, nil, 0o600))
		must.OK(t, os.Chmod(path, mode[0]))
		want[name] = mode[1]
	}
	must.OK(t, chownTree(t, dir))
	for name, mode := range want {
		info, err := os.Lstat(filepath.Join(dir, name))
		must.OK(t, err)
		if info.Mode() != mode || gid(info) != 1234 {
			t.Errorf("%.20s: %v of group %d, want %v of 1234", name, info.Mode(), gid(info), mode)
		}
	}
	if info, err := os.Lstat(outside); err != nil || info.Mode() != 0o600 || gid(info) == 1234 {
		t.Errorf("a link was followed: %v, %v", info, err)
	}
}

// A container that has the volume already swaps a file and a directory with links out of the volume, and a file of its
// own, which anybody may run as its owner, with one of somebody else.
func TestWhatIsSwappedDuringTheWalkChangesNoOtherFile(t *testing.T) {
	const walks, swapsOfAWalk = 200, 20
	dir, outside := t.TempDir(), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, os.WriteFile(filepath.Join(outside, "f"), nil, 0o600))
	must.OK(t, os.Mkdir(in("d"), 0o700))
	for _, name := range []string{"f", "d/f", "mine", "theirs"} {
		must.OK(t, os.WriteFile(in(name), nil, 0o600))
	}
	must.OK(t, os.Symlink(filepath.Join(outside, "f"), in("f-link")))
	must.OK(t, os.Symlink(outside, in("d-link")))
	must.OK(t, os.Chmod(in("mine"), fs.ModeSetuid|0o777))
	theirs, err := os.Open(in("theirs"))
	must.OK(t, err)
	defer theirs.Close()

	var swaps atomic.Int64
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			for _, name := range [][2]string{{"f", "f-link"}, {"d", "d-link"}, {"mine", "theirs"}} {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				err := unix.Renameat2(unix.AT_FDCWD, in(name[0]), unix.AT_FDCWD, in(name[1]), unix.RENAME_EXCHANGE)
				if err != nil {
					ended <- err
					return
				}
				swaps.Add(1)
			}
		}
	}()
	for walk := range int64(walks) {
		for first := true; first || swaps.Load() < walk*swapsOfAWalk && len(ended) == 0; first = false {
			if err := chownTree(t, dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	must.OK(t, <-ended)
	info, err := theirs.Stat()
	must.OK(t, err)
	if info.Mode() != 0o660 { // theirs is in the volume, and only the group gets it
		t.Errorf("the other's file is %v, want %v", info.Mode(), fs.FileMode(0o660))
	}
	for name, mode := range map[string]fs.FileMode{"f": 0o600, ".": fs.ModeDir | 0o755} {
		info, err := os.Lstat(filepath.Join(outside, name))
		must.OK(t, err)
		if info.Mode() != mode || gid(info) == 1234 {
			t.Errorf("outside, %s is %v of group %d, want %v", name, info.Mode(), gid(info), mode)
		}
	}
}
