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

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// chain creates directories below dir, one in the other, with a file in each every-th.
func chain(t *testing.T, dir string, levels, every int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must.OK(t, err)
	for i := range levels {
		must.OK(t, unix.Mkdirat(fd, "d", 0o700))
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY, 0)
		must.OK(t, err)
		must.OK(t, unix.Close(fd))
		if fd = next; every > 0 && i%every == 0 {
			f, err := unix.Openat(fd, "f", unix.O_CREAT|unix.O_WRONLY, 0o600)
			must.OK(t, err)
			must.OK(t, unix.Close(f))
		}
	}
	must.OK(t, unix.Close(fd))
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must.OK(t, err)
	return len(entries)
}

// countdown is a context that ends after so many calls of Err, and keeps the most that it saw.
type countdown struct {
	context.Context
	left  int
	files int
	heap  uint64
	t     *testing.T
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	if c.t != nil && c.left%1000 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.heap, c.files = max(c.heap, m.HeapInuse), max(c.files, openFiles(c.t))
	}
	return nil
}

func TestDeepTreeIsRemovedWithFewDescriptorsAndLittleMemory(t *testing.T) {
	root, dir := openRoot(t)
	must.OK(t, os.Mkdir(filepath.Join(dir, "v"), 0o700))
	chain(t, filepath.Join(dir, "v"), 20000, 100)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	ctx := &countdown{Context: t.Context(), left: 1 << 30, t: t}
	files := openFiles(t)
	must.OK(t, RemoveTree(ctx, root, "v"))
	if _, err := os.Lstat(filepath.Join(dir, "v")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the tree is left")
	}
	if grown := int64(ctx.heap) - int64(m.HeapInuse); grown > 8<<20 || ctx.files-files > window+2 {
		t.Errorf("%d bytes of heap and %d descriptors more", grown, ctx.files-files)
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d descriptors before, %d after", files, now)
	}
}

func TestRemovalOfATreeEndsWithItsContextAndContinues(t *testing.T) {
	root, dir := openRoot(t)
	must.OK(t, os.Mkdir(filepath.Join(dir, "v"), 0o700))
	chain(t, filepath.Join(dir, "v"), 2000, 1)
	if err := RemoveTree(&countdown{Context: t.Context(), left: 100}, root, "v"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "v")); err != nil {
		t.Fatal("the removal did not end")
	}
	must.OK(t, RemoveTree(t.Context(), root, "v"))
	must.OK(t, RemoveTree(t.Context(), root, "v")) // there is no such tree
}

func TestWideAndBushyTreesAreRemoved(t *testing.T) {
	root, dir := openRoot(t)
	for i := range 1000 {
		deep := filepath.Join(dir, "v", fmt.Sprint(i%7), strings.Repeat("s/", i%90), fmt.Sprint(i))
		must.OK(t, os.MkdirAll(deep, 0o700))
		must.OK(t, os.WriteFile(filepath.Join(deep, "f"), nil, 0o600))
		must.OK(t, os.WriteFile(filepath.Join(dir, "v", fmt.Sprint("file", i)), nil, 0o600))
	}
	must.OK(t, RemoveTree(t.Context(), root, "v"))
	if _, err := os.Lstat(filepath.Join(dir, "v")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the tree is left")
	}
}

func TestRemovalFollowsNoLink(t *testing.T) {
	root, dir := openRoot(t)
	outside := filepath.Join(dir, "outside")
	must.OK(t, errors.Join(os.MkdirAll(filepath.Join(dir, "v/a"), 0o700), os.Mkdir(outside, 0o700),
		os.WriteFile(filepath.Join(outside, "f"), nil, 0o600), os.Symlink(outside, filepath.Join(dir, "v/a/l")),
		os.Symlink(outside, filepath.Join(dir, "top"))))
	must.OK(t, errors.Join(RemoveTree(t.Context(), root, "v"), RemoveTree(t.Context(), root, "top")))
	if _, err := os.Lstat(filepath.Join(outside, "f")); err != nil {
		t.Error("a link was followed")
	}
	for _, bad := range []string{"", ".", "..", "a/b", "../x"} {
		if RemoveTree(t.Context(), root, bad) == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

func TestNothingIsRemovedThroughAMount(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot("/")
	must.OK(t, err)
	defer root.Close()
	top, err := os.OpenFile("/", os.O_RDONLY|unix.O_DIRECTORY, 0)
	must.OK(t, err)
	defer top.Close()
	// /proc is the root of another mount everywhere.
	for name, open := range map[string]func(int, string) (int, error){
		"openat2": openDir,
		"without": func(at int, name string) (int, error) { return openOnDevice(at, name, unix.O_RDONLY|unix.O_DIRECTORY) },
	} {
		if _, err := open(int(top.Fd()), "proc"); !errors.Is(err, errMounted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	own, err := os.Open(dir)
	must.OK(t, err)
	defer own.Close()
	must.OK(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	fd, err := openOnDevice(int(own.Fd()), "d", unix.O_RDONLY|unix.O_DIRECTORY)
	must.OK(t, err)
	must.OK(t, unix.Close(fd))
}

// A file that stays does not keep the others, and is named.
func TestRemovalNamesWhatStays(t *testing.T) {
	root, dir := openRoot(t)
	must.OK(t, os.MkdirAll(filepath.Join(dir, "v/a/b"), 0o700))
	for i := range 200 {
		must.OK(t, os.WriteFile(filepath.Join(dir, "v/a", fmt.Sprint(i)), nil, 0o600))
	}
	at, err := os.Open(dir)
	must.OK(t, err)
	defer at.Close()
	r := &remover{ctx: t.Context(), top: dir}
	r.open[0] = at
	r.keep(0, "v", "remove", errMounted) // the first error stays
	r.remove(0, "v")
	if r.failed == nil || !strings.Contains(r.failed.Error(), filepath.Join(dir, "v")) {
		t.Error(r.failed)
	}
	must.OK(t, RemoveTree(t.Context(), root, "v"))
}
