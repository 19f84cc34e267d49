package durable

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	all, err := os.ReadDir(dir)
	must.OK(t, err)
	var out []string
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteReplacesTheWholeFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must.OK(t, os.WriteFile(path, []byte("a long content of before"), 0o644))
	must.OK(t, Write(path, []byte("new")))
	b, err := os.ReadFile(path)
	must.OK(t, err)
	info, err := os.Stat(path)
	must.OK(t, err)
	if string(b) != "new" || info.Mode().Perm() != 0o600 || !slices.Equal(names(t, dir), []string{"f"}) {
		t.Errorf("the file has %q, mode %v; the directory %v", b, info.Mode(), names(t, dir))
	}
}

func TestWriteFollowsNoLinkAndTakesOverNoPart(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	must.OK(t, os.WriteFile(outside, []byte("of another"), 0o600))
	must.OK(t, os.Symlink(outside, filepath.Join(dir, "f"+PartSuffix)))
	must.OK(t, os.Symlink(outside, filepath.Join(dir, "f")))
	root, err := os.OpenRoot(dir)
	must.OK(t, err)
	defer root.Close()
	must.OK(t, WriteIn(root, "f", []byte("ours")))
	info, err := os.Lstat(filepath.Join(dir, "f"))
	must.OK(t, err)
	b, err := os.ReadFile(outside)
	must.OK(t, err)
	if info.Mode().Type() != 0 || string(b) != "of another" {
		t.Errorf("wrote through a link: %v, %q", info.Mode(), b)
	}
}

func TestAFailedWriteLeavesTheFileAsItWas(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must.OK(t, os.Mkdir(path, 0o700)) // a directory is not replaced
	if err := Write(path, []byte("new")); err == nil {
		t.Error("wrote over a directory")
	}
	if all := names(t, dir); !slices.Equal(all, []string{"f"}) {
		t.Errorf("left %v", all)
	}
	if err := Write(filepath.Join(dir, "none", "f"), nil); !os.IsNotExist(err) {
		t.Errorf("a missing directory: %v", err)
	}
	must.OK(t, SyncDir(dir))
	if err := SyncDir(path + "x"); !os.IsNotExist(err) {
		t.Errorf("a missing directory: %v", err)
	}
}
