package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/pod/mounts"
	"github.com/journalet/journalet/test/fakedisk"
	"github.com/journalet/journalet/test/must"
)

const probe = "blkid -p -s TYPE -s PTTYPE -o export DISK"

// rig is a disk and a directory for it.
type rig struct {
	t    *testing.T
	disk *fakedisk.Disk
	*Mounter
	target string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, disk: fakedisk.New(t), target: filepath.Join(t.TempDir(), "volume")}
	r.Mounter = New(Options{Dir: r.disk.Dir, Timeout: time.Minute})
	must.OK(t, os.Mkdir(r.target, 0o750))
	t.Cleanup(func() {
		for unix.Unmount(r.target, unix.MNT_DETACH) == nil {
		}
	})
	return r
}

func (r *rig) mountIt(ctx context.Context, s Source) error {
	s.Device = r.disk.Device
	return r.Mount(ctx, r.target, func() (*os.File, error) { return os.Open(r.target) }, s)
}

func (r *rig) expect(want ...string) {
	r.t.Helper()
	if got := r.disk.Calls(); !slices.Equal(got, want) {
		r.t.Errorf("programs\n got %q\nwant %q", got, want)
	}
}

// fails fails the test unless err has a text, and nothing is mounted.
func (r *rig) fails(err error, want string) {
	r.t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		r.t.Errorf("got %v, want %q", err, want)
	}
	if mounted, err := mounts.At(r.target); mounted || err != nil {
		r.t.Errorf("mounted: %v, %v", mounted, err)
	}
}

func TestABlankDiskIsFormattedOnceAndAnotherTimeChecked(t *testing.T) {
	for _, c := range []struct {
		source       Source
		format, kind string
	}{
		{Source{}, "mkfs.ext4 -F -m0 DISK", "ext4"},
		{Source{Type: "xfs", Options: []string{"noatime", "", "discard"}}, "mkfs.xfs -f DISK", "xfs -o discard,noatime"},
	} {
		r := newRig(t)
		mount := "mount --no-canonicalize -t " + c.kind + " -- DISK /proc/self/fd/3/."
		must.OK(t, r.mountIt(t.Context(), c.source))
		r.expect(probe, c.format, mount)
		must.OK(t, r.mountIt(t.Context(), c.source)) // it is mounted
		r.expect()
		must.OK(t, r.Unmount(t.Context(), r.target))
		r.disk.Calls()
		must.OK(t, r.mountIt(t.Context(), c.source))
		r.expect(probe, "fsck -a DISK", mount)
	}
}

func TestADiskThatHasAnythingIsNeverFormatted(t *testing.T) {
	for _, c := range []struct {
		has, kind, want string
	}{
		{"PTTYPE=gpt", "", "has a partition table (gpt), and the volume is to have ext4: it is not formatted"},
		{"TYPE=vfat\nPTTYPE=dos", "vfat", "has a partition table (dos)"},
		{"TYPE=xfs", "", "has xfs, and the volume is to have ext4"},
		{"TYPE=LVM2_member", "xfs", "has LVM2_member"},
		{"UUID=1", "", "blkid has printed"},
		{"=", "", "blkid has printed"},
	} {
		r := newRig(t)
		r.disk.Has(c.has)
		r.fails(r.mountIt(t.Context(), Source{Type: c.kind}), c.want)
		r.expect(probe)
	}
	r := newRig(t)
	r.disk.Exit("blkid", 8) // signatures of several file systems
	r.fails(r.mountIt(t.Context(), Source{}), "find out what is on disk")
	r.expect(probe)
	r.disk.Exit("blkid", 0)
	r.disk.Has("TYPE=ext3") // the driver of ext4 mounts it
	must.OK(t, r.mountIt(t.Context(), Source{}))
}

func TestADiskThatIsOnlyReadIsNeitherFormattedNorChecked(t *testing.T) {
	for name, s := range map[string]Source{
		"claim": {ReadOnly: true}, "option": {Options: []string{"noatime,ro"}},
	} {
		r := newRig(t)
		r.fails(r.mountIt(t.Context(), s), "is blank, and a volume that is read-only is not formatted")
		r.expect(probe)
		r.disk.Has("TYPE=ext4")
		must.OK(t, r.mountIt(t.Context(), s))
		if got := r.disk.Calls(); len(got) != 2 || !strings.Contains(got[1], "ro") {
			t.Errorf("%s: %q", name, got)
		}
		if err := r.mountIt(t.Context(), Source{}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: a pod that writes gets %v", name, err)
		}
		must.OK(t, r.mountIt(t.Context(), s))
	}
}

func TestWhatFsckSaysDecidesWhetherADiskIsMounted(t *testing.T) {
	for code, want := range map[int]string{1: "", 2: "", 4: "errors on disk", 8: "", 32: ""} {
		r := newRig(t)
		r.disk.Has("TYPE=ext4")
		r.disk.Exit("fsck", code)
		if err := r.mountIt(t.Context(), Source{}); want == "" {
			must.OK(t, err)
		} else {
			r.fails(err, want)
		}
	}
	r := newRig(t)
	r.disk.Has("TYPE=ext4")
	r.disk.Remove("fsck")
	must.OK(t, r.mountIt(t.Context(), Source{}))
}

func TestAMissingProgramIsNamedWithItsPackage(t *testing.T) {
	for name, want := range map[string]string{
		"blkid":     "blkid is not on this node; install the package util-linux",
		"mkfs.ext4": "mkfs.ext4 is not on this node; install the package e2fsprogs",
	} {
		r := newRig(t)
		r.disk.Remove(name)
		r.fails(r.mountIt(t.Context(), Source{}), want)
	}
	r := newRig(t)
	r.disk.Remove("mkfs.xfs")
	r.fails(r.mountIt(t.Context(), Source{Type: "xfs"}), "install the package xfsprogs")
}

func TestASourceThatIsNoneStartsNothing(t *testing.T) {
	for want, s := range map[string]Source{
		"cannot be the name of a file system": {Type: "../../bin/sh"},
		"control characters":                  {Options: []string{"a\nb"}},
	} {
		r := newRig(t)
		r.fails(r.mountIt(t.Context(), s), want)
		r.expect()
	}
	r := newRig(t)
	must.OK(t, os.Remove(r.disk.Device))
	r.fails(r.mountIt(t.Context(), Source{}), "no such file")
}

func TestAnotherDiskAtTheSameDirectoryIsAnError(t *testing.T) {
	r := newRig(t)
	must.OK(t, r.mountIt(t.Context(), Source{}))
	other := filepath.Join(t.TempDir(), "other")
	must.OK(t, unix.Mknod(other, unix.S_IFBLK|0o600, int(unix.Mkdev(250, 250))))
	err := r.Mount(t.Context(), r.target, func() (*os.File, error) { return os.Open(r.target) }, Source{Device: other})
	if err == nil || !strings.Contains(err.Error(), "is mounted at") {
		t.Errorf("got %v", err)
	}
}

// Half a file system could neither be mounted nor formatted.
func TestTheEndOfAPodCutsNoFormatShort(t *testing.T) {
	r := newRig(t)
	r.disk.Hold("mkfs.ext4", true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.mountIt(ctx, Source{}) }()
	must.Until(t, time.Minute, "a program hangs", r.disk.Hung)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.fails(r.mountIt(t.Context(), Source{}), "an earlier format of the disk is still under way")
	r.expect(probe, "mkfs.ext4 -F -m0 DISK")
	r.disk.Hold("mkfs.ext4", false)
	must.Until(t, time.Minute, "the disk is mounted", func() bool { return r.mountIt(t.Context(), Source{}) == nil })
	if got := r.disk.Calls(); slices.ContainsFunc(got, func(c string) bool { return strings.HasPrefix(c, "mkfs") }) {
		t.Errorf("it was formatted again: %q", got)
	}
}

func TestAProgramThatHangsIsKilledAtItsDeadline(t *testing.T) {
	for _, name := range []string{"blkid", "mkfs.ext4", "fsck", "mount"} {
		r := newRig(t)
		if name == "fsck" {
			r.disk.Has("TYPE=ext4")
		}
		r.Mounter = New(Options{Dir: r.disk.Dir, Timeout: 500 * time.Millisecond})
		r.disk.Hold(name, true)
		r.fails(r.mountIt(t.Context(), Source{}), "the disk does not answer within 500ms")
		r.Mounter = New(Options{Dir: r.disk.Dir, Timeout: time.Minute})
		r.disk.Hold(name, false)
		must.OK(t, r.mountIt(t.Context(), Source{}))
	}
}

func TestAFileSystemGrowsByTheProgramOfItsType(t *testing.T) {
	r := newRig(t)
	for has, want := range map[string]string{
		"ext4": "resize2fs DISK", "xfs": "xfs_growfs -d /at", "btrfs": "btrfs filesystem resize max /at",
	} {
		r.disk.Has("TYPE=" + has)
		must.OK(t, r.Grow(t.Context(), "/at", Source{Device: r.disk.Device}))
		r.expect(probe, want)
	}
	r.disk.Has("TYPE=vfat")
	r.fails(r.Grow(t.Context(), "/at", Source{Device: r.disk.Device}), "vfat on disk")
	r.disk.Has("TYPE=ext4")
	r.disk.Exit("resize2fs", 1)
	r.fails(r.Grow(t.Context(), "/at", Source{Device: r.disk.Device}), "resize ext4 on disk")
}
