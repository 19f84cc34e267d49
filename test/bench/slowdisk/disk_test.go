//go:build integration

package slowdisk

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const delay = 20 * time.Millisecond

// slow returns a slow disk, its mount point and the mounted directory.
func slow(t *testing.T) (disk *Disk, at, from string) {
	t.Helper()
	from, at = t.TempDir(), t.TempDir()
	disk, err := Mount(from, at, delay)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	return disk, at, from
}

// counted runs do and returns how many of its syncs were delayed. It checks that do took at least that long.
func counted(t *testing.T, d *Disk, do func() error) int64 {
	t.Helper()
	before, began := d.Syncs(), time.Now()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	n := d.Syncs() - before
	if took := time.Since(began); took < time.Duration(n)*delay {
		t.Fatalf("%d syncs took %v", n, took)
	}
	return n
}

func TestSyncIsDelayedOnceAndWriteIsNot(t *testing.T) {
	d, at, from := slow(t)
	f, err := os.Create(filepath.Join(at, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, step := range []struct {
		what string
		want int64
		do   func() error
	}{
		{"a write", 0, func() error { _, err := f.Write([]byte("abc")); return err }},
		{"fsync", 1, f.Sync},
		{"fdatasync", 1, func() error { return syscall.Fdatasync(int(f.Fd())) }},
	} {
		if got := counted(t, d, step.do); got != step.want {
			t.Errorf("%s was delayed %d times, want %d", step.what, got, step.want)
		}
	}
	if got, err := os.ReadFile(filepath.Join(from, "file")); err != nil || !bytes.Equal(got, []byte("abc")) {
		t.Errorf("the mounted directory holds %q, %v", got, err)
	}
}

func TestWriteToAFileOpenedToSyncIsDelayedOnce(t *testing.T) {
	d, at, _ := slow(t)
	for _, flag := range []int{os.O_SYNC, syscall.O_DSYNC} {
		f, err := os.OpenFile(filepath.Join(at, "file"), os.O_CREATE|os.O_WRONLY|flag, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if got := counted(t, d, func() error { _, err := f.Write([]byte("abc")); return err }); got != 1 {
			t.Errorf("with flag %#x a write was delayed %d times", flag, got)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSyncOfADirectoryIsDelayed(t *testing.T) {
	d, at, _ := slow(t)
	sub := filepath.Join(at, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{at, sub} {
		dir, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := counted(t, d, dir.Sync); got != 1 {
			t.Errorf("a sync of %s was delayed %d times", path, got)
		}
		dir.Close()
	}
}

func TestSocketOnTheSlowDiskWorks(t *testing.T) {
	_, at, _ := slow(t)
	path := filepath.Join(at, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
