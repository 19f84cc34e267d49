package bounded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

func atOnce(context.Context, time.Duration) error { return nil }

// usage measures name below root.
func usage(t *testing.T, root *os.Root, name string) Usage {
	t.Helper()
	u, err := DiskUsage(t.Context(), root, name, 0, atOnce)
	must.OK(t, err)
	return u
}

// blocks returns what one file or directory takes by itself.
func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	must.OK(t, unix.Lstat(path, &st))
	return st.Blocks * blockBytes
}

func TestUsageCountsAllocatedBlocksOfEachFileOnce(t *testing.T) {
	root, dir := openRoot(t)
	must.OK(t, os.MkdirAll(filepath.Join(dir, "v/a/b"), 0o700))
	file := filepath.Join(dir, "v/a/b/f")
	must.OK(t, os.WriteFile(file, make([]byte, 100_000), 0o600))
	for i := range 3 {
		must.OK(t, os.Link(file, filepath.Join(dir, "v", fmt.Sprint("link", i))))
	}
	// Sparse: a size without blocks.
	must.OK(t, errors.Join(os.WriteFile(filepath.Join(dir, "v/sparse"), nil, 0o600),
		os.Truncate(filepath.Join(dir, "v/sparse"), 1<<40)))
	want := Usage{FileBytes: blocks(t, file), Inodes: 5} // three directories, the file, the sparse one
	for _, d := range []string{"v", "v/a", "v/a/b"} {
		want.DirBytes += blocks(t, filepath.Join(dir, d))
	}
	if got := usage(t, root, "v"); got != want || want.FileBytes < 100_000 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := usage(t, root, "v/sparse"); got != (Usage{Inodes: 1}) {
		t.Errorf("a sparse file: %+v", got)
	}
	for _, missing := range []string{"no", "no/such/dir", "v/no"} {
		if got := usage(t, root, missing); got != (Usage{}) {
			t.Errorf("%s: %+v", missing, got)
		}
	}
}

func TestUsageFollowsNoLinkAndEntersNoMount(t *testing.T) {
	root, dir := openRoot(t)
	outside := filepath.Join(dir, "outside")
	must.OK(t, errors.Join(os.MkdirAll(filepath.Join(dir, "v/mounted"), 0o700), os.Mkdir(outside, 0o700),
		os.WriteFile(filepath.Join(outside, "f"), make([]byte, 1<<20), 0o600), os.Symlink(outside, filepath.Join(dir, "v/l")),
		os.Symlink("outside", filepath.Join(dir, "top"))))
	must.OK(t, unix.Mount(outside, filepath.Join(dir, "v/mounted"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(dir, "v/mounted"), 0) })
	for _, name := range []string{"v", "top"} {
		if got := usage(t, root, name); got.Bytes() >= 1<<20 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDeepAndBushyTreesAreMeasuredWholeWithFewDescriptors(t *testing.T) {
	root, dir := openRoot(t)
	var want int64
	for i := range 400 {
		// Siblings at each level, so that every level continues after its child.
		deep := filepath.Join(dir, "v", strings.Repeat("s/", i%90), fmt.Sprint(i))
		must.OK(t, os.MkdirAll(deep, 0o700))
		must.OK(t, os.WriteFile(filepath.Join(deep, "f"), make([]byte, 4096), 0o600))
		want += blocks(t, filepath.Join(deep, "f"))
	}
	for i := range 1000 {
		must.OK(t, os.WriteFile(filepath.Join(dir, "v/s/s", fmt.Sprint("file", i)), []byte("x"), 0o600))
		want += blocks(t, filepath.Join(dir, "v/s/s", fmt.Sprint("file", i)))
	}
	if got := usage(t, root, "v"); got.FileBytes != want {
		t.Errorf("got %+v, want %d bytes of files", got, want)
	}
	must.OK(t, os.Mkdir(filepath.Join(dir, "deep"), 0o700))
	chain(t, filepath.Join(dir, "deep"), 3000, 100)
	runtime.GC()
	files := openFiles(t)
	most, calls := 0, 0
	got, err := DiskUsage(t.Context(), root, "deep", 0, func(context.Context, time.Duration) error {
		if calls++; calls%100 == 0 {
			most = max(most, openFiles(t)-files)
		}
		return nil
	})
	must.OK(t, err)
	if least := 3000 * blocks(t, filepath.Join(dir, "deep")); got.DirBytes < least || most > window+4 {
		t.Errorf("%+v, want %d at least; %d descriptors", got, least, most)
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d descriptors before, %d after", files, now)
	}
	must.OK(t, RemoveTree(t.Context(), root, "deep"))
}

func TestUsageEndsBeyondItsBoundAndWithItsContext(t *testing.T) {
	root, dir := openRoot(t)
	must.OK(t, os.Mkdir(filepath.Join(dir, "v"), 0o700))
	chain(t, filepath.Join(dir, "v"), 1000, 1)
	all := usage(t, root, "v").Bytes()
	got, err := DiskUsage(t.Context(), root, "v", all/2, atOnce)
	if err != nil || got.Bytes() <= all/2 || got.Bytes() > all/2+16<<10 {
		t.Errorf("%+v, %v; all are %d", got, err, all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err = DiskUsage(ctx, root, "v", 0, func(ctx context.Context, spent time.Duration) error {
		if calls++; calls == 100 {
			cancel()
		}
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || calls > 101 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// A container moves a deep directory while it is measured: nothing outside is measured, and it ends.
func TestMovedDirectoryLeadsNowhere(t *testing.T) {
	root, dir := openRoot(t)
	must.OK(t, errors.Join(os.MkdirAll(filepath.Join(dir, "v/after"), 0o700), os.Mkdir(filepath.Join(dir, "big"), 0o700),
		os.WriteFile(filepath.Join(dir, "big/f"), make([]byte, 1<<20), 0o600)))
	deep := filepath.Join(dir, "v", strings.Repeat("s/", window+8))
	must.OK(t, os.MkdirAll(deep, 0o700))
	moved := false
	got, err := DiskUsage(t.Context(), root, "v", 0, func(context.Context, time.Duration) error {
		if !moved && openAt(t, deep) {
			must.OK(t, os.Rename(deep, filepath.Join(dir, "big/moved")))
			moved = true
		}
		return nil
	})
	if !moved || err == nil || !strings.Contains(err.Error(), "moved") || got.Bytes() >= 1<<20 {
		t.Errorf("moved %v, %+v, %v", moved, got, err)
	}
}

// openAt reports whether this process has a directory open.
func openAt(t *testing.T, path string) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must.OK(t, err)
	for _, e := range entries {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == filepath.Clean(path) {
			return true
		}
	}
	return false
}
