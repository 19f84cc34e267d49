package volume

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

// A container may write its hosts file, and so may choose its size.
func TestHostsFileOfAnySizeIsReplacedWithoutReadingIt(t *testing.T) {
	d, _, _ := newTest(t)
	hosts, err := d.WriteHosts("u1", []byte("a"))
	must.OK(t, err)
	must.OK(t, os.Truncate(hosts, 1<<40))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan error, 1)
	go func() {
		_, err := d.WriteHosts("u1", []byte("a"))
		done <- err
	}()
	for finished := false; !finished; {
		select {
		case err := <-done:
			must.OK(t, err)
			finished = true
		default:
			if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 64<<20 {
				t.Fatal("the file is read into memory")
			}
		}
	}
	if st, err := os.Stat(hosts); err != nil || st.Size() != 1 {
		t.Errorf("%v, %v", st, err)
	}
}

// A file that another process executes or holds a lease on cannot be opened for writing.
func TestLeasedHostsFileIsReplaced(t *testing.T) {
	d, _, _ := newTest(t)
	hosts, err := d.WriteHosts("u1", []byte("old"))
	must.OK(t, err)
	holder, err := os.Open(hosts)
	must.OK(t, err)
	defer holder.Close()
	if _, err := unix.FcntlInt(holder.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		t.Fatalf("set a lease: %v; run the test on a file system with leases, such as ext4 or tmpfs", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := d.WriteHosts("u1", []byte("new content"))
		done <- err
	}()
	select {
	case err := <-done:
		must.OK(t, err)
	case <-time.After(20 * time.Second): // the kernel breaks a lease after 45 s
		t.Fatal("the write waits for the lease")
	}
	if got, err := os.ReadFile(hosts); err != nil || string(got) != "new content" || mode(t, hosts) != hostsFileMode {
		t.Errorf("%q, %v", got, err)
	}
	held, err := holder.Stat()
	must.OK(t, err)
	if kept, err := os.Stat(hosts + ".0"); err != nil || !os.SameFile(held, kept) {
		t.Errorf("what the container can write to has no name any more: %v", err)
	}
	must.OK(t, d.CreatePodDirs("u1"))
	if !d.createdHere("u1") {
		t.Error("with a replaced hosts file the pod's directory counts as another's")
	}
}

func TestReplacedHostsFilesAreBounded(t *testing.T) {
	d, _, _ := newTest(t)
	hosts, err := d.WriteHosts("u1", []byte("first"))
	for i := 0; err == nil && i <= 2*maxReplacedHosts; i++ {
		holder, failed := os.Open(hosts)
		must.OK(t, failed)
		defer holder.Close()
		if _, err := unix.FcntlInt(holder.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
			t.Fatalf("set a lease: %v; run the test on a file system with leases, such as ext4 or tmpfs", err)
		}
		_, err = d.WriteHosts("u1", fmt.Append(nil, i))
	}
	kept, _ := filepath.Glob(hosts + ".[0-9]*")
	if err == nil || !strings.Contains(err.Error(), "/etc/hosts") || len(kept) != maxReplacedHosts {
		t.Errorf("%d files are kept, %v", len(kept), err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must.OK(t, err)
	return len(entries)
}

// watched is a context that notes the descriptors in use whenever it is checked, and ends after so many checks.
type watched struct {
	context.Context
	t     *testing.T
	left  int
	files int
}

func (w *watched) Err() error {
	if w.left--; w.left < 0 {
		return context.Canceled
	}
	if w.left%500 == 0 {
		w.files = max(w.files, descriptors(w.t))
	}
	return nil
}

// deepVolume creates an emptyDir with a tree of so many levels.
func deepVolume(t *testing.T, d *Driver, levels int) {
	t.Helper()
	pod := podWith(emptyDir("disk", "", ""))
	must.OK(t, setUp(t, d, pod))
	path, err := d.Path(pod, "disk")
	must.OK(t, err)
	fd, err := unix.Open(path, unix.O_DIRECTORY, 0)
	must.OK(t, err)
	for range levels {
		must.OK(t, unix.Mkdirat(fd, "d", 0o700))
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY, 0)
		must.OK(t, errors.Join(err, unix.Close(fd)))
		fd = next
	}
	must.OK(t, unix.Close(fd))
}

func TestDeepVolumeIsRemovedWithFewDescriptorsAndCanBeCanceled(t *testing.T) {
	d, _, dir := newTest(t)
	deepVolume(t, d, 5000)
	t.Cleanup(func() { _, _ = d.TearDown(context.Background(), "u1") })
	before := descriptors(t)
	if _, err := d.TearDown(&watched{Context: t.Context(), t: t, left: 1000}, "u1"); !errors.Is(err, context.Canceled) {
		t.Fatalf("the removal does not end with its context: %v", err)
	}
	all := &watched{Context: t.Context(), t: t, left: 1 << 30}
	must.OK(t, clean(all, d, "u1", "default", "web"))
	if all.files == 0 || all.files-before > 64 {
		t.Errorf("%d descriptors in use, %d before", all.files, before)
	}
	if _, err := os.Lstat(filepath.Join(dir, "pods/u1")); !os.IsNotExist(err) {
		t.Error("the pod's directory is left")
	}
}
