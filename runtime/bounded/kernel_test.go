package bounded

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

func TestKernelFilesAreReadIntoABuffer(t *testing.T) {
	dir := t.TempDir()
	long := bytes.Repeat([]byte("0123456789"), 300)
	must.OK(t, os.WriteFile(filepath.Join(dir, "short"), []byte("12\n"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "long"), long, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	must.OK(t, os.Symlink("short", filepath.Join(dir, "link")))
	must.OK(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must.OK(t, os.Mkdir(filepath.Join(dir, "dir"), 0o700))
	d, err := OpenDir(dir)
	must.OK(t, err)
	defer d.Close()
	buf := make([]byte, 4096)
	for name, want := range map[string][]byte{"short": []byte("12\n"), "long": long, "empty": nil, "fifo": nil} {
		if got, err := d.ReadInto(name, buf); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	for name, want := range map[string]error{"link": unix.ELOOP, "dir": unix.EISDIR, "none": fs.ErrNotExist} {
		if _, err := d.ReadInto(name, buf); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if got, err := d.ReadInto("long", buf[:1000]); !errors.Is(err, ErrTooLarge) || !bytes.Equal(got, long[:1000]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// Every file of this kernel that statistics read is read whole.
	proc, err := OpenDir("/proc")
	must.OK(t, err)
	defer proc.Close()
	for _, name := range []string{"meminfo", "vmstat", "loadavg", "uptime", "self/net/dev"} {
		got, err := proc.ReadInto(name, make([]byte, 64<<10))
		must.OK(t, err)
		if len(got) == 0 || got[len(got)-1] != '\n' {
			t.Errorf("%s ends with %q", name, got[max(0, len(got)-20):])
		}
	}
	if _, err := OpenDir(filepath.Join(dir, "short")); !errors.Is(err, unix.ENOTDIR) {
		t.Error(err)
	}
}
