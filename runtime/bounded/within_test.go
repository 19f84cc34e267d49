package bounded

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

func TestFileIsReadWithinItsDirectory(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "volume")
	must.OK(t, os.MkdirAll(filepath.Join(dir, "etc"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(top, "secret"), []byte("outside"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "etc", "file"), []byte("inside"), 0o600))
	must.OK(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for name, to := range map[string]string{
		"relative": "etc/file", "absolute": "/etc/file", "directory": "/etc", "up": "../../../etc/file",
		"out": "../secret", "host": filepath.Join(top, "secret"), "loop": "loop", "magic": "/proc/self/exe",
	} {
		must.OK(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for _, name := range []string{"etc/file", "relative", "absolute", "directory/file", "up", "../etc/file"} {
		got, err := ReadFileWithin(dir, name, 6)
		if string(got) != "inside" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]error{
		"out": os.ErrNotExist, "host": os.ErrNotExist, "magic": os.ErrNotExist, "none": os.ErrNotExist,
		"loop": unix.ELOOP, "etc": ErrNotRegular, "pipe": ErrNotRegular, "../secret": os.ErrNotExist,
	} {
		if got, err := ReadFileWithin(dir, name, 6); !errors.Is(err, want) || len(got) > 0 {
			t.Errorf("%s: %q, %v, want %v", name, got, err, want)
		}
	}
	if _, err := ReadFileWithin(dir, "etc/file", 5); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	f, err := os.Open(filepath.Join(top, "secret"))
	must.OK(t, err)
	defer f.Close()
	if _, err := ReadFileWithin("/proc/self/fd", strconv.Itoa(int(f.Fd())), 9); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link of /proc: %v", err)
	}
}
