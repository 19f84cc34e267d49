package bounded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

func TestEachFileOfADeepTreeIsVisitedWithFewDescriptors(t *testing.T) {
	root, dir := openRoot(t)
	const depth = 3000
	must.OK(t, os.Mkdir(filepath.Join(dir, "deep"), 0o700))
	chain(t, filepath.Join(dir, "deep"), depth, 100)
	must.OK(t, os.Symlink("deep", filepath.Join(dir, "link")))
	runtime.GC()
	files := openFiles(t)
	most, kinds := 0, map[uint32]int{}
	must.OK(t, Each(t.Context(), root, func(fd int, st *unix.Stat_t) error {
		kinds[st.Mode&unix.S_IFMT]++
		if kinds[unix.S_IFDIR]%100 == 0 {
			most = max(most, openFiles(t)-files)
		}
		return nil
	}))
	if kinds[unix.S_IFDIR] != depth+1 || kinds[unix.S_IFLNK] != 1 || kinds[unix.S_IFREG] == 0 || most > window+5 {
		t.Errorf("visited %v with %d descriptors", kinds, most)
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d descriptors before, %d after", files, now)
	}
	must.OK(t, RemoveTree(t.Context(), root, "deep"))
}

func TestEachEndsWithAnErrorAndWithItsContext(t *testing.T) {
	root, dir := openRoot(t)
	for _, name := range []string{"a", "b"} {
		must.OK(t, os.MkdirAll(filepath.Join(dir, name, "c"), 0o700))
	}
	visits, failed := 0, errors.New("failed")
	err := Each(t.Context(), root, func(int, *unix.Stat_t) error { visits++; return failed })
	if !errors.Is(err, failed) || visits != 1 {
		t.Errorf("%d visits, error %v", visits, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	visits = 0
	err = Each(ctx, root, func(int, *unix.Stat_t) error { visits++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || visits != 1 {
		t.Errorf("%d visits, error %v", visits, err)
	}
}
