package subpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// newPath returns a path in an empty volume of a pod.
func newPath(t *testing.T, sub string) Path {
	t.Helper()
	dir := t.TempDir()
	p := Path{PodDir: filepath.Join(dir, "pod"), Volume: "v", VolumePath: filepath.Join(dir, "pod/volumes/v"),
		Container: "main", SubPath: sub}
	must.OK(t, os.MkdirAll(p.VolumePath, 0o700))
	t.Cleanup(func() { unmount(t, p.PodDir) })
	return p
}

func unmount(t testing.TB, dir string) {
	t.Helper()
	for _, at := range slices.Backward(mountsBelow(t, dir)) {
		must.OK(t, unix.Unmount(at, unix.UMOUNT_NOFOLLOW))
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must.OK(t, err)
	return string(data)
}

func mountsBelow(t testing.TB, dir string) []string {
	t.Helper()
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	must.OK(t, err)
	var out []string
	for _, i := range infos {
		out = append(out, i.Mountpoint)
	}
	return out
}

func TestMissingDirectoriesHaveTheVolumesMode(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	p := newPath(t, "a//b/c/")
	must.OK(t, os.Mkdir(filepath.Join(p.VolumePath, "a"), 0o700))
	must.OK(t, os.Chmod(p.VolumePath, 0o775|os.ModeSetgid))
	got, err := Prepare(p)
	must.OK(t, err)
	if want := filepath.Join(p.PodDir, "volume-subpaths/v/main/0"); got != want {
		t.Errorf("mounted at %s, want %s", got, want)
	}
	for dir, want := range map[string]os.FileMode{
		"a": os.ModeDir | 0o700, "a/b": os.ModeDir | os.ModeSetgid | 0o775, "a/b/c": os.ModeDir | os.ModeSetgid | 0o775,
	} {
		info, err := os.Lstat(filepath.Join(p.VolumePath, dir))
		must.OK(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", dir, info.Mode(), want)
		}
	}
	write(t, filepath.Join(got, "f"), "1")
	if read(t, filepath.Join(p.VolumePath, "a/b/c/f")) != "1" {
		t.Error("the path and its mount differ")
	}
}

func TestLinksInsideVolumeAreFollowed(t *testing.T) {
	p := newPath(t, "key")
	write(t, filepath.Join(p.VolumePath, "..1/key"), "text")
	must.OK(t, errors.Join(os.Symlink("..1", filepath.Join(p.VolumePath, "..data")),
		os.Symlink("..data/key", filepath.Join(p.VolumePath, "key")),
		os.Symlink(filepath.Join(p.VolumePath, "..1"), filepath.Join(p.VolumePath, "absolute"))))
	for i, sub := range []string{"key", "absolute/key", "..data/key", "absolute/../key"} {
		p.SubPath, p.Index = sub, i
		got, err := Prepare(p)
		if i == 3 {
			if err == nil {
				t.Error("a path with .. was accepted")
			}
			continue
		}
		must.OK(t, err)
		if read(t, got) != "text" {
			t.Errorf("%s shows %q", sub, read(t, got))
		}
	}
	p.SubPath, p.Index = "absolute/new/dir", 4
	_, err := Prepare(p)
	must.OK(t, err)
	if info, err := os.Lstat(filepath.Join(p.VolumePath, "..1/new/dir")); err != nil || !info.IsDir() {
		t.Errorf("the directory behind a link inside: %v", err)
	}
}

// CVE-2017-1002101 and its variant with mkdir.
func TestLinksOutOfVolumeAreRefused(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	for name, link := range map[string]string{
		"absolute": outside, "relative": "../../../../../../../../../../../../.." + outside, "root": "/",
		"proc": "/proc/self/root", "cwd": "/proc/self/cwd", "up": "..", "chain": "chained",
	} {
		for _, sub := range []string{"link", "link/secret", "link/new", "link/new/deeper", "dir/../link"} {
			p := newPath(t, sub)
			must.OK(t, errors.Join(os.Symlink(link, filepath.Join(p.VolumePath, "link")),
				os.Symlink(outside, filepath.Join(p.VolumePath, "chained")), os.Mkdir(filepath.Join(p.VolumePath, "dir"), 0o700)))
			got, err := Prepare(p)
			if err == nil {
				t.Errorf("link %s, subPath %s: mounted at %s", name, sub, got)
			}
			if len(mountsBelow(t, p.PodDir)) != 0 {
				t.Errorf("link %s, subPath %s: a mount is left", name, sub)
			}
			if strings.HasPrefix(sub, "link") && !errors.Is(err, ErrEscapes) && !errors.Is(err, unix.ENOENT) {
				t.Errorf("link %s, subPath %s: %v", name, sub, err)
			}
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside is now %v, %v", entries, err)
	}
}

func TestDanglingLinkIsNeitherFollowedNorReplaced(t *testing.T) {
	p := newPath(t, "link/sub")
	aim := filepath.Join(t.TempDir(), "new")
	must.OK(t, os.Symlink(aim, filepath.Join(p.VolumePath, "link")))
	if _, err := Prepare(p); err == nil {
		t.Error("mounted")
	}
	if _, err := os.Lstat(aim); err == nil {
		t.Error("created outside the volume")
	}
}

// CVE-2021-25741: a container exchanges a directory and a link all the time.
func TestExchangedDirectoryNeverLeadsOut(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "sub/who"), "outside")
	p := newPath(t, "")
	write(t, filepath.Join(p.VolumePath, "dir/sub/who"), "inside")
	must.OK(t, errors.Join(os.Symlink(outside, filepath.Join(p.VolumePath, "link")),
		os.Symlink(filepath.Join(p.VolumePath, "dir"), filepath.Join(p.VolumePath, "absolute"))))
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		at, err := unix.Open(p.VolumePath, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		for err == nil {
			select {
			case <-stop:
				stopped <- unix.Close(at)
				return
			default:
				err = unix.Renameat2(at, "dir", at, "link", unix.RENAME_EXCHANGE)
			}
		}
		stopped <- err
	}()
	mounted, refused := 0, 0
	for i := range 2000 {
		p.Index, p.SubPath = i%3, []string{"dir/sub", "absolute/sub"}[i%2]
		got, err := Prepare(p)
		if err != nil {
			refused++
			continue
		}
		mounted++
		if who := read(t, filepath.Join(got, "who")); who != "inside" {
			t.Errorf("attempt %d mounted what is %s", i, who)
			break
		}
	}
	close(stop)
	must.OK(t, <-stopped)
	t.Logf("%d mounted, %d refused", mounted, refused)
	if mounted == 0 || refused == 0 {
		t.Errorf("%d mounted, %d refused: the exchange was not under way", mounted, refused)
	}
}

func TestEveryTypeOfFileIsMountedWithoutOpeningIt(t *testing.T) {
	p := newPath(t, "")
	must.OK(t, unix.Mkfifo(filepath.Join(p.VolumePath, "fifo"), 0o600))
	write(t, filepath.Join(p.VolumePath, "file"), "")
	want := map[string]uint32{"fifo": unix.S_IFIFO, "file": unix.S_IFREG}
	if err := unix.Mknod(filepath.Join(p.VolumePath, "device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 11))); err == nil {
		want["device"] = unix.S_IFCHR // only root of the node may
	}
	for sub, kind := range want {
		p.SubPath, p.Container = sub, sub
		got, err := Prepare(p)
		must.OK(t, err)
		var st unix.Stat_t
		must.OK(t, unix.Lstat(got, &st))
		if st.Mode&unix.S_IFMT != kind {
			t.Errorf("%s is mounted with mode %o", sub, st.Mode)
		}
	}
	p.SubPath = "fifo/below"
	if _, err := Prepare(p); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a directory below a FIFO: %v", err)
	}
}

func TestPrepareIsRepeatable(t *testing.T) {
	p := newPath(t, "file")
	file := filepath.Join(p.VolumePath, "file")
	write(t, file, "1")
	for range 3 {
		got, err := Prepare(p)
		must.OK(t, err)
		if read(t, got) != "1" || len(mountsBelow(t, p.PodDir)) != 1 {
			t.Errorf("%q, mounts %v", read(t, got), mountsBelow(t, p.PodDir))
		}
	}
	// Another file under the same name, then a directory: mount points of another kind.
	must.OK(t, os.Remove(file))
	write(t, file, "2")
	got, err := Prepare(p)
	must.OK(t, err)
	if read(t, got) != "2" {
		t.Errorf("shows %q of a file that is gone", read(t, got))
	}
	must.OK(t, os.Remove(file))
	write(t, filepath.Join(file, "f"), "3")
	got, err = Prepare(p)
	must.OK(t, err)
	if read(t, filepath.Join(got, "f")) != "3" || len(mountsBelow(t, p.PodDir)) != 1 {
		t.Errorf("mounts %v", mountsBelow(t, p.PodDir))
	}
	// A crash before the mount leaves a mount point.
	must.OK(t, unix.Unmount(got, 0))
	got, err = Prepare(p)
	must.OK(t, err)
	if read(t, filepath.Join(got, "f")) != "3" {
		t.Error("not mounted again")
	}
}

func TestMountOverTheMountIsReplaced(t *testing.T) {
	p := newPath(t, "dir")
	write(t, filepath.Join(p.VolumePath, "dir/f"), "kept")
	got, err := Prepare(p)
	must.OK(t, err)
	must.OK(t, unix.Mount(p.VolumePath, got, "", unix.MS_BIND, ""))
	again, err := Prepare(p)
	must.OK(t, err)
	if again != got || read(t, filepath.Join(got, "f")) != "kept" || len(mountsBelow(t, p.PodDir)) != 1 {
		t.Errorf("mounts %v", mountsBelow(t, p.PodDir))
	}
}

// CVE-2017-1002102: nothing is removed but what the package has created.
func TestContentsOfAMountPointStay(t *testing.T) {
	p := newPath(t, "file")
	write(t, filepath.Join(p.VolumePath, "file"), "")
	point := filepath.Join(p.PodDir, "volume-subpaths/v/main/0")
	write(t, filepath.Join(point, "f"), "kept")
	if _, err := Prepare(p); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("a mount point with contents: %v", err)
	}
	if read(t, filepath.Join(point, "f")) != "kept" {
		t.Error("removed")
	}
	must.OK(t, os.RemoveAll(point))
	aim := filepath.Join(t.TempDir(), "aim")
	write(t, aim, "kept")
	must.OK(t, os.Symlink(aim, point))
	got, err := Prepare(p)
	must.OK(t, err)
	if info, err := os.Lstat(got); err != nil || !info.Mode().IsRegular() || read(t, aim) != "kept" {
		t.Errorf("a link at the mount point: %v, %v", info, err)
	}
}

func TestBadPathsAreRefused(t *testing.T) {
	for i, change := range []func(*Path){
		func(p *Path) { p.SubPath = "" }, func(p *Path) { p.SubPath = "/etc" }, func(p *Path) { p.SubPath = "a/../.." },
		func(p *Path) { p.SubPath = ".." }, func(p *Path) { p.Volume = "../v" }, func(p *Path) { p.Volume = ".." },
		func(p *Path) { p.Container = "a/b" }, func(p *Path) { p.Container = "" },
		func(p *Path) { p.VolumePath += "/none" }, func(p *Path) { p.PodDir += "/none" },
		func(p *Path) { write(t, p.VolumePath+"/file", ""); p.VolumePath += "/file" },
	} {
		p := newPath(t, "a")
		q := p
		change(&q)
		if got, err := Prepare(q); err == nil {
			t.Errorf("case %d: mounted at %s", i, got)
		}
	}
}

func BenchmarkPrepare(b *testing.B) {
	dir := b.TempDir()
	p := Path{PodDir: dir, Volume: "v", VolumePath: filepath.Join(dir, "volume"), SubPath: "a/b"}
	must.OK(b, os.Mkdir(p.VolumePath, 0o700))
	for b.Loop() {
		p.Container = fmt.Sprint("c", p.Index%1000)
		_, err := Prepare(p)
		must.OK(b, err)
		p.Index++
	}
	b.StopTimer()
	unmount(b, dir)
}

// A daemon's socket or a file that is gone for a while is not to become a directory.
func TestAFileThatIsGoneIsNotReplacedByADirectory(t *testing.T) {
	p := newPath(t, "run/d.sock")
	at := filepath.Join(p.VolumePath, "run/d.sock")
	write(t, at, "first")
	target, err := Prepare(p)
	must.OK(t, err)
	gone := func(when string) {
		t.Helper()
		if _, err := Prepare(p); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", when, err)
		}
		if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s something is there: %v", when, err)
		}
	}
	must.OK(t, os.Remove(at))
	gone("while it is mounted")
	must.OK(t, unix.Unmount(target, unix.UMOUNT_NOFOLLOW))
	gone("after a reboot")
	write(t, at, "second")
	target, err = Prepare(p)
	must.OK(t, err)
	if got := read(t, target); got != "second" {
		t.Errorf("it has %q", got)
	}
	// What was a directory is created again.
	dir := newPath(t, "data")
	_, err = Prepare(dir)
	must.OK(t, err)
	must.OK(t, os.Remove(filepath.Join(dir.VolumePath, "data")))
	_, err = Prepare(dir)
	must.OK(t, err)
}

// A sidecar replaces the file all the time: what was opened may have lost its name before it is mounted.
func TestFileThatIsReplacedAllTheTimeIsMounted(t *testing.T) {
	p := newPath(t, "f")
	write(t, filepath.Join(p.VolumePath, "f"), "text")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.WriteFile(filepath.Join(p.VolumePath, "new"), []byte("text"), 0o600)
			_ = os.Rename(filepath.Join(p.VolumePath, "new"), filepath.Join(p.VolumePath, "f"))
		}
	}()
	defer func() {
		close(stop)
		<-done
	}()
	for range 300 {
		at, err := Prepare(p)
		must.OK(t, err)
		if got := read(t, at); got != "text" {
			t.Fatalf("the mount shows %q", got)
		}
	}
}

// A container is created with the mount, a sidecar replaces the file, and the runtime binds the mount again.
func TestFileThatIsReplacedAfterItsMountIsMountableAgain(t *testing.T) {
	p := newPath(t, "f")
	to := filepath.Join(t.TempDir(), "to")
	write(t, to, "")
	for _, text := range []string{"first", "second"} {
		write(t, filepath.Join(p.VolumePath, "new"), text)
		must.OK(t, os.Rename(filepath.Join(p.VolumePath, "new"), filepath.Join(p.VolumePath, "f")))
		at, err := Prepare(p)
		must.OK(t, err)
		write(t, filepath.Join(p.VolumePath, "new"), "another")
		must.OK(t, os.Rename(filepath.Join(p.VolumePath, "new"), filepath.Join(p.VolumePath, "f")))
		must.OK(t, unix.Mount(at, to, "", unix.MS_BIND, ""))
		if got := read(t, to); got != text {
			t.Errorf("the mount shows %q, want %q", got, text)
		}
		must.OK(t, unix.Unmount(to, 0))
	}
}
