package bus

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// onOwnDisk runs the test again in a process with its own mount namespace, where f gets a directory to mount on. A
// user namespace makes that possible without privileges.
func onOwnDisk(t *testing.T, f func(t *testing.T, dir string)) {
	t.Helper()
	if dir := os.Getenv("JOURNALET_TEST_DISK"); dir != "" {
		f(t, dir)
		return
	}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings, attr.GidMappings = ownIDs(os.Geteuid()), ownIDs(os.Getegid())
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "JOURNALET_TEST_DISK="+t.TempDir())
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func ownIDs(id int) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
}

// mountDisk mounts a disk of size bytes on dir.
func mountDisk(t *testing.T, dir string, size int) {
	t.Helper()
	// Keep the mount private to this namespace.
	must.OK(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must.OK(t, unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)))
}

func remountReadOnly(t *testing.T, dir string) {
	t.Helper()
	must.OK(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
}

func TestOpenNamesReadOnlyDisk(t *testing.T) {
	onOwnDisk(t, func(t *testing.T, dir string) {
		mountDisk(t, dir, 64<<20)
		bus := filepath.Join(dir, "bus")
		b := openBus(t, bus)
		appendFacts(t, b, 5)
		closeBus(t, b)
		before := readFile(t, filepath.Join(bus, headFile))
		remountReadOnly(t, dir)
		_, err := Open(testContext(t), Options{Dir: bus, Node: testNode, Log: quiet})
		if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "mounted read-only") {
			t.Fatalf("opened with %v", err)
		}
		if !bytes.Equal(before, readFile(t, filepath.Join(bus, headFile))) {
			t.Fatal("the head was changed")
		}
		must.OK(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
		if o := openBus(t, bus).Opening(); !o.Clean || o.Last != 5 {
			t.Fatalf("%+v", o)
		}
	})
}

// Other processes fill the disk. Queued records are stored in the space of the reserve, and the reserve is allocated
// again once there is space.
func TestFullDiskUsesReserve(t *testing.T) {
	onOwnDisk(t, func(t *testing.T, dir string) {
		mountDisk(t, dir, 64<<20)
		b := openBus(t, filepath.Join(dir, "bus"))
		r := b.journal.a.reserve
		if !r.held || !isAllocated(r.path) {
			t.Fatal("no reserve is allocated")
		}
		appendFacts(t, b, 10)
		filler := filepath.Join(dir, "filler")
		fill(t, filler)
		var h received
		b.Journal().OnStored(h.add)
		appendFacts(t, b, 1000) // more than fits into the last page of the block
		wantSeqs(t, h.seqs(), 11, 1010)
		if _, err := os.Stat(r.path); !os.IsNotExist(err) {
			t.Fatalf("the reserve was not needed: %v", err)
		}
		r.tried = time.Time{}
		appendFacts(t, b, 1)
		if r.held {
			t.Fatal("the reserve took the last free space")
		}
		must.OK(t, os.Remove(filler))
		r.tried = time.Time{} // permit another attempt now
		appendFacts(t, b, 1)
		if !r.held || !isAllocated(r.path) {
			t.Fatal("the reserve was not allocated again")
		}
		wantWhole(t, b, 1, 1012, false)
	})
}

// fill takes all free space.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must.OK(t, err)
	for chunk := make([]byte, 1<<20); len(chunk) > 0; chunk = chunk[:len(chunk)/2] {
		for err = nil; err == nil; {
			_, err = f.Write(chunk)
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	f.Close()
}

// brokenDisk is a stream whose records cannot be forced to disk for a while.
type brokenDisk struct {
	*faultyLink
	broken atomic.Int32 // how many more times
}

func (l *brokenDisk) force() error {
	if l.broken.Add(-1) >= 0 {
		return &os.PathError{Op: "fdatasync", Path: "1.blk", Err: unix.EIO}
	}
	return l.faultyLink.force()
}

func TestRecordsAreNotDeliveredWhileSyncFails(t *testing.T) {
	l := &brokenDisk{faultyLink: newFaultyLink(1, 0)}
	l.broken.Store(1 << 30)
	var h received
	a := startAppender(t, l, h.add)
	for i := range 20 {
		must.OK(t, a.enqueue(fact(messages.Pod("p"), int64(i))))
	}
	var why error
	waitUntil(t, "the stall is reported", func() bool {
		_, why = a.stalled()
		return why != nil
	})
	if !errors.Is(why, unix.EIO) || !strings.Contains(why.Error(), "force the journal to disk") || len(h.seqs()) != 0 {
		t.Fatalf("%v; delivered: %v", why, h.seqs())
	}
	l.broken.Store(0)
	must.OK(t, a.flush(testContext(t)))
	wantSeqs(t, h.seqs(), 1, 20)
	if _, err := a.stalled(); err != nil {
		t.Fatal(err)
	}
}

func TestRetentionWithClockSetBackCutsNothingEarly(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	var hours []int
	for i := range 100 {
		hours = append(hours, 200-i)
	}
	for i := range 100 {
		hours = append(hours, 125-i) // a day back
	}
	appendAged(t, b, hours...)
	wantWhole(t, b, 1, 200, false)
	closeBus(t, b)
	b = openBus(t, dir)
	if o := b.Opening(); o.Damage != nil || !o.Clean || o.Last != 200 {
		t.Fatalf("%+v", o)
	}
	tail, err := b.Journal().Tail(testContext(t), "", 200)
	if err != nil || len(tail) != 200 {
		t.Fatalf("%d, %v", len(tail), err)
	}
	for age := 200; age > 0; age -= 7 { // whatever the bound, only older records are cut
		retain(t, b, Retention{Age: time.Duration(age) * time.Hour}, 200)
		kept := b.Journal().First()
		if kept > 1 && hours[kept-2] <= age {
			t.Fatalf("with a bound of %dh record %d was cut, of %dh", age, kept-1, hours[kept-2])
		}
		wantWhole(t, b, kept, 200, kept > 1)
	}
}

func TestOpenReportsChangedLastRecordAfterCleanStop(t *testing.T) {
	// The store's own checksum is correct here: another record was written in place of the last one.
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 5)
	h := &journaletv1.Head{Seq: 5, Hash: messages.Hash([]byte("what was stored")), Format: messages.JournalFormat,
		Epoch: 1, Clean: true}
	closeBus(t, b)
	slot, err := encodeHead(h)
	must.OK(t, err)
	writeFile(t, filepath.Join(dir, headFile), slot)
	if o := openBus(t, dir).Opening(); o.Damage == nil || o.Clean ||
		!strings.Contains(o.Damage.GetMessage(), "not the one that was stored") {
		t.Fatalf("%+v", o)
	}
}

func TestOpenReportsMissingBlock(t *testing.T) {
	for _, harm := range []struct {
		name  string
		block uint64
		index bool // left as it was
	}{{"front", 1, true}, {"front, index gone", 1, false}, {"middle", 2, true}, {"middle, index gone", 2, false}} {
		t.Run(harm.name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir)
			for range 64 { // 32 MiB, several blocks
				rec := fact(messages.Pod("p"), 0)
				widen(rec, 512<<10)
				must.OK(t, b.Journal().Append(rec))
			}
			must.OK(t, b.Journal().Flush(testContext(t)))
			closeBus(t, b)
			must.OK(t, os.Remove(b.blocks.path(harm.block)))
			if !harm.index {
				removeIndex(t, dir)
			}
			b = openBus(t, dir)
			o := b.Opening()
			t.Log(o.Damage)
			if o.Damage == nil || o.Clean || o.Last != 64 {
				t.Fatalf("%+v", o)
			}
			if r, err := b.Journal().Verify(testContext(t), nil); err != nil || r.OK() {
				t.Fatalf("%+v, %v", r, err)
			}
			appendFacts(t, b, 1)
			closeBus(t, b)
			if again := openBus(t, dir).Opening(); again.Damage != nil || !again.Clean || again.Last != 65 {
				t.Fatalf("the next start: %+v", again)
			}
		})
	}
}

func TestBlockIsRewrittenAfterFailedSync(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 10)
	before := inode(t, b.blocks.path(1))
	var once atomic.Bool
	b.blocks.mu.Lock()
	b.blocks.sync = func(path string) error {
		if once.CompareAndSwap(false, true) {
			return &os.PathError{Op: "fdatasync", Path: path, Err: unix.EIO}
		}
		return syncFile(path)
	}
	b.blocks.mu.Unlock()
	appendFacts(t, b, 10)
	if !once.Load() || inode(t, b.blocks.path(1)) == before {
		t.Fatal("the block was not rewritten after a failed sync")
	}
	appendFacts(t, b, 10)
	wantWhole(t, b, 1, 30, false)
	closeBus(t, b)
	if o := openBus(t, dir).Opening(); !o.Clean || o.Damage != nil || o.Last != 30 {
		t.Fatalf("%+v", o)
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must.OK(t, unix.Stat(path, &st))
	return st.Ino
}
