//go:build vm

package quota

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/test/must"
)

// quotaDirVariable names a directory on a file system that is mounted with prjquota. Package test/vm sets it: few
// machines have one.
const quotaDirVariable = "JOURNALET_QUOTA_DIR"

func walked(t *testing.T, dir string) int64 {
	t.Helper()
	root, err := os.OpenRoot(filepath.Dir(dir))
	must.OK(t, err)
	defer root.Close()
	u, err := bounded.DiskUsage(t.Context(), root, filepath.Base(dir), 0,
		func(context.Context, time.Duration) error { return nil })
	must.OK(t, err)
	return u.Bytes()
}

func TestQuotaIsWhatAWalkFinds(t *testing.T) {
	base := os.Getenv(quotaDirVariable)
	if base == "" {
		t.Fatalf("set %s to a directory on a file system that is mounted with prjquota", quotaDirVariable)
	}
	var dirs []string
	for _, name := range []string{"a", "b"} {
		dir := filepath.Join(base, name)
		must.OK(t, os.Mkdir(dir, 0o700))
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		must.OK(t, Assign(dir, "the same key")) // ids in use are passed over
		dirs = append(dirs, dir)
	}
	for i, dir := range dirs {
		must.OK(t, errors.Join(os.MkdirAll(filepath.Join(dir, "x/y"), 0o700),
			os.WriteFile(filepath.Join(dir, "f"), make([]byte, (i+1)<<20), 0o600),
			os.WriteFile(filepath.Join(dir, "x/y/g"), make([]byte, 100_000), 0o600)))
	}
	unix.Sync() // blocks are allocated when they are written
	for i, dir := range dirs {
		got, ok := Used(dir)
		if want := walked(t, dir); !ok || got != want || got < int64(i+1)<<20 {
			t.Errorf("%s: %d, %v, want %d", dir, got, ok, want)
		}
	}
	// What a walk cannot find: a file that is deleted and still open.
	f, err := os.Create(filepath.Join(dirs[0], "open"))
	must.OK(t, err)
	defer f.Close()
	_, err = f.Write(make([]byte, 3<<20))
	must.OK(t, errors.Join(err, os.Remove(f.Name())))
	if got, ok := Used(dirs[0]); !ok || got < 4<<20 {
		t.Errorf("with a deleted file: %d, %v", got, ok)
	}
	// A directory within has the project, too; one beside it has none.
	if _, ok := Used(base); ok {
		t.Error("a directory without a project is measured")
	}
}

func TestFileSystemWithoutQuotaIsUnsupported(t *testing.T) {
	dir := t.TempDir()
	if err := Assign(dir, "key"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v; is %s mounted with prjquota?", err, dir)
	}
	if _, ok := Used(dir); ok {
		t.Error("it is measured")
	}
}
