package bounded_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/test/must"
)

func TestHeldDirectoryFollowsNoLink(t *testing.T) {
	top := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(top, "a", "b"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(top, "a", "b", "file"), []byte("x"), 0o600))
	must.OK(t, os.Symlink("a", filepath.Join(top, "link")))
	must.OK(t, os.Symlink("file", filepath.Join(top, "a", "b", "tofile")))
	must.OK(t, unix.Mkfifo(filepath.Join(top, "a", "b", "fifo"), 0o600))
	for _, below := range []string{"link/b", "../" + filepath.Base(top) + "/a", "a/b/file", "a/missing"} {
		if h, err := bounded.Hold(top, below); err == nil {
			t.Errorf("%s was opened as %s", below, h.Name())
		}
	}
	h, err := bounded.Hold(top, "a/b")
	must.OK(t, err)
	defer h.Close()
	for name, want := range map[string]error{
		"tofile": bounded.ErrNotRegular, "fifo": bounded.ErrNotRegular, "missing": fs.ErrNotExist,
	} {
		if _, err := h.Open(name); !errors.Is(err, want) {
			t.Errorf("open %s: %v, want %v", name, err, want)
		}
	}
	for _, name := range []string{"", ".", "..", "../b/file", "x/y", "file\x00"} {
		if _, err := h.Open(name); err == nil {
			t.Errorf("%q was opened", name)
		}
		if err := errors.Join(h.Rename("file", name)); err == nil {
			t.Errorf("renamed to %q", name)
		}
		if err := h.Remove(name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
	if err := h.Rename("file", "fifo"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a rename replaced a file: %v", err)
	}
	must.OK(t, h.Remove("tofile"))
	if _, err := h.Stat("file"); err != nil {
		t.Errorf("removing a link removed its target: %v", err)
	}
}

func TestHeldDirectoryStaysTheSameWhenItIsMoved(t *testing.T) {
	top := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(top, "a"), 0o755))
	must.OK(t, os.MkdirAll(filepath.Join(top, "outside"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(top, "a", "f"), nil, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(top, "outside", "f"), nil, 0o600))
	h, err := bounded.Hold(top, "a")
	must.OK(t, err)
	defer h.Close()
	must.OK(t, os.Rename(filepath.Join(top, "a"), filepath.Join(top, "b")))
	must.OK(t, os.Symlink("outside", filepath.Join(top, "a")))
	must.OK(t, h.Rename("f", "g"))
	if _, err := os.Stat(filepath.Join(top, "b", "g")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(top, "outside", "f")); err != nil {
		t.Error(err)
	}
}
