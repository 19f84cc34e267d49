package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/pod/mount8"
	"github.com/journalet/journalet/runtime/pod/mounts"
	"github.com/journalet/journalet/runtime/program"
)

const (
	// defaultType is the file system of a volume that names none. kubelet: mount-utils.
	defaultType = "ext4"
	// maxTypeBytes bounds the name of a file system.
	maxTypeBytes = 32
	// maxProbeBytes bounds what blkid(8) prints: a line for each of four values.
	maxProbeBytes = 4 << 10

	// probeTimeout bounds blkid(8), which reads some blocks of the disk.
	probeTimeout = time.Minute
	// formatTimeout bounds mkfs(8), which discards the blocks of the whole disk (kubelet: none).
	formatTimeout = 30 * time.Minute
	// checkTimeout bounds fsck(8): without a journal it reads all inodes of a disk (kubelet: none).
	checkTimeout = 2 * time.Hour
	// mountTimeout bounds mount(8), which replays the journal of a file system (kubelet: none).
	mountTimeout = 10 * time.Minute
	// growTimeout bounds the growth of a file system (kubelet: none).
	growTimeout = 30 * time.Minute
)

// Exit codes of fsck(8), and of blkid(8) where it has found nothing. mount-utils: the same.
const (
	fsckCorrected   = 1
	fsckUncorrected = 4
	blkidNothing    = 2
)

// errHangs is the error of a program that does not end in time.
var errHangs = errors.New("the disk does not answer")

// ErrReadOnly means that a disk is mounted already, and nothing can be written to it: a pod that only reads has it, or
// its file system has found an error.
var ErrReadOnly = errors.New("the disk is mounted read-only")

// Options configure a Mounter; the zero value is for a node.
type Options struct {
	// Dir is the directory of the programs. Default: program.Path.
	Dir string
	// Timeout bounds each of them; 0: the constants above.
	Timeout time.Duration
	Log     *slog.Logger
}

// Mounter mounts disks. What is mounted is in the mount table only, what is on a disk on the disk.
type Mounter struct {
	opts  Options
	mount *mount8.Mounter
	runs  program.Runs
}

// New returns a Mounter.
func New(o Options) *Mounter {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Mounter{opts: o, runs: program.Runs{Hangs: errHangs}}
	m.mount = mount8.New(mount8.Options{
		Mount: m.program("mount"), Umount: m.program("umount"), MountTimeout: cmp.Or(o.Timeout, mountTimeout),
		UnmountTimeout: o.Timeout, ForceTimeout: o.Timeout,
	}, errHangs)
	return m
}

// program returns a program as it is started.
func (m *Mounter) program(name string) string {
	if m.opts.Dir == "" {
		return name
	}
	return filepath.Join(m.opts.Dir, name)
}

// Source is a disk, and how its file system is mounted.
type Source struct {
	// Device is the path of a block device. It may be a link.
	Device string
	// Type is the type of its file system; empty: ext4.
	Type string
	// Options are options of mount(8).
	Options  []string
	ReadOnly bool
}

// readOnly reports whether nothing may be written to the disk.
func (s Source) readOnly() bool {
	return s.ReadOnly || slices.Contains(strings.Split(mount8.Join(s.Options, false), ","), "ro")
}

// resolved returns the source with what it leaves out, and its device without links: all programs work at one device.
func (s Source) resolved() (Source, error) {
	s.Type = cmp.Or(s.Type, defaultType)
	isNo := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	if len(s.Type) > maxTypeBytes || strings.ContainsFunc(s.Type, isNo) {
		return s, fmt.Errorf("%.64q cannot be the name of a file system; correct the volume", s.Type)
	}
	if why := mount8.Check(mount8.Join(s.Options, s.ReadOnly)); why != "" {
		return s, fmt.Errorf("%s; correct the volume", why)
	}
	var err error
	s.Device, err = filepath.EvalSymlinks(filepath.Join("/", s.Device)) // kubelet: a path without a slash is below it
	return s, err
}

// Mount mounts the file system of a disk at the directory target, which open opens. It formats a blank disk first,
// checks an existing file system, and leaves a disk with anything else alone. It is idempotent. What is mounted at the
// directory already has to be this disk, and writable if the source is.
func (m *Mounter) Mount(ctx context.Context, target string, open func() (*os.File, error), s Source) error {
	s, err := s.resolved()
	if err != nil {
		return err
	}
	switch at, err := mounts.Of(target); {
	case err != nil:
		return err
	case at != nil:
		return checkMounted(at, target, s)
	}
	if err := m.prepare(ctx, s); err != nil {
		return err
	}
	return m.mount.Mount(ctx, target, open, mount8.What{
		Kind: s.Type, Device: s.Device, Options: mount8.Join(s.Options, s.ReadOnly),
	})
}

// checkMounted returns an error unless a mount is of the disk, and writable if the source is: another PersistentVolume
// may have had the name, or a pod that only reads. The mount's source counts, too: btrfs has devices of its own.
func checkMounted(at *mountinfo.Info, target string, s Source) error {
	var is, named unix.Stat_t
	if err := unix.Stat(s.Device, &is); err != nil {
		return fmt.Errorf("read %s: %w", s.Device, err)
	}
	if is.Rdev != unix.Mkdev(uint32(at.Major), uint32(at.Minor)) &&
		(!strings.HasPrefix(at.Source, "/dev/") || unix.Stat(at.Source, &named) != nil || named.Rdev != is.Rdev) {
		return fmt.Errorf("%.256q is mounted at %s, and the volume is %s; unmount it", at.Source, target, s.Device)
	}
	if mounts.IsReadOnly(at) && !s.readOnly() {
		return fmt.Errorf("%s: %w", s.Device, ErrReadOnly)
	}
	return nil
}

// prepare has the disk carry a file system of the source's type that may be mounted.
func (m *Mounter) prepare(ctx context.Context, s Source) error {
	has, err := m.probe(ctx, s.Device)
	switch {
	case err != nil:
		return err
	case has == "" && s.readOnly():
		return fmt.Errorf("disk %s is blank, and a volume that is read-only is not formatted; let a pod write to it first",
			s.Device)
	case has == "":
		return m.format(ctx, s)
	case !canMount(s.Type, has):
		return fmt.Errorf("disk %s has %s, and the volume is to have %s: it is not formatted; correct fsType, or remove "+
			"what is on the disk with wipefs", s.Device, has, s.Type)
	case s.readOnly():
		return nil
	}
	return m.check(ctx, s.Device)
}

// canMount reports whether a file system can be mounted as a type: all ext types have one driver.
func canMount(kind, has string) bool {
	ext := []string{"ext2", "ext3", "ext4"}
	return kind == has || slices.Contains(ext, kind) && slices.Contains(ext, has)
}

// probe returns the type of what is on a disk; empty: nothing. Anything that is not known for nothing is an error, or
// has a name that is no file system's.
func (m *Mounter) probe(ctx context.Context, device string) (string, error) {
	out := &program.Head{Most: maxProbeBytes}
	err := m.run(ctx, program.Run{
		Does: "inspection of the disk", Program: "blkid",
		Args:   []string{"-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device},
		Stdout: out, Timeout: probeTimeout,
	}, device, "util-linux")
	if program.ExitCode(err) == blkidNothing && len(out.Kept) == 0 {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find out what is on disk %s: %w", device, err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out.Kept)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			found[name] = value
		}
	}
	switch {
	case found["PTTYPE"] != "":
		return fmt.Sprintf("a partition table (%.32s)", found["PTTYPE"]), nil
	case found["TYPE"] == "":
		return "", fmt.Errorf("find out what is on disk %s: blkid has printed %.256q", device, out.Kept)
	}
	return fmt.Sprintf("%.64s", found["TYPE"]), nil
}

// format creates a file system on a blank disk. It is not cut short: what is left of some could neither be mounted nor
// formatted. mkfs.ext4 refuses a disk that is in use: no option forces it to.
func (m *Mounter) format(ctx context.Context, s Source) error {
	args := []string{s.Device}
	switch s.Type {
	case "ext3", "ext4":
		args = []string{"-F", "-m0", s.Device} // mount-utils: asks nothing, and keeps no blocks for root alone
	case "xfs":
		args = []string{"-f", s.Device}
	}
	m.opts.Log.Info("a blank disk is formatted for a volume", "disk", s.Device, "type", s.Type)
	packages := map[string]string{"xfs": "xfsprogs", "btrfs": "btrfs-progs"}
	err := m.run(ctx, program.Run{
		Does: "format of the disk", Program: "mkfs." + s.Type, Args: args, Timeout: formatTimeout, Finishes: true,
	}, s.Device, cmp.Or(packages[s.Type], "e2fsprogs"))
	if err != nil {
		return fmt.Errorf("format disk %s as %s: %w", s.Device, s.Type, err)
	}
	return nil
}

// check has a file system checked, and repaired where that needs no answer. What cannot be repaired is not mounted; a
// program that fails otherwise, or is not there, leaves the decision to mount(8). mount-utils: the same.
func (m *Mounter) check(ctx context.Context, device string) error {
	err := m.run(ctx, program.Run{
		Does: "check of the disk", Program: "fsck", Args: []string{"-a", device}, Timeout: checkTimeout, Finishes: true,
	}, device, "util-linux")
	switch code := program.ExitCode(err); {
	case err == nil:
	case code == fsckCorrected:
		m.opts.Log.Info("errors of a disk have been corrected", "disk", device)
	case code == fsckUncorrected:
		return fmt.Errorf("fsck has found errors on disk %s that it cannot correct; repair it by hand: %w", device, err)
	case code >= 0 || isMissing(err):
		m.opts.Log.Warn("a disk is mounted without a check", "disk", device, "error", err)
	default:
		return fmt.Errorf("check disk %s: %w", device, err)
	}
	return nil
}

// Grow has the file system of a disk that is mounted at target fill the disk. Where it does already, nothing changes.
func (m *Mounter) Grow(ctx context.Context, target string, s Source) error {
	s, err := s.resolved()
	if err != nil {
		return err
	}
	has, err := m.probe(ctx, s.Device)
	if err != nil {
		return err
	}
	r, pkg := program.Run{Does: "growth of the file system", Timeout: growTimeout, Finishes: true}, ""
	switch has {
	case "ext3", "ext4":
		r.Program, r.Args, pkg = "resize2fs", []string{s.Device}, "e2fsprogs"
	case "xfs":
		r.Program, r.Args, pkg = "xfs_growfs", []string{"-d", target}, "xfsprogs"
	case "btrfs":
		r.Program, r.Args, pkg = "btrfs", []string{"filesystem", "resize", "max", target}, "btrfs-progs"
	default:
		return fmt.Errorf("%s on disk %s cannot be resized; ext3, ext4, xfs and btrfs can", has, s.Device)
	}
	if err := m.run(ctx, r, s.Device, pkg); err != nil {
		return fmt.Errorf("resize %s on disk %s: %w", has, s.Device, err)
	}
	return nil
}

// Unmount unmounts what is mounted at a directory, and leaves the directory.
func (m *Mounter) Unmount(ctx context.Context, target string) error {
	return m.mount.Unmount(ctx, target)
}

// run runs a program of a package at a disk.
func (m *Mounter) run(ctx context.Context, r program.Run, device, pkg string) error {
	name := r.Program
	r.Key, r.Program, r.Timeout = device, m.program(name), cmp.Or(m.opts.Timeout, r.Timeout)
	err := m.runs.Do(ctx, r)
	if isMissing(err) {
		return missing(name, pkg, err)
	}
	return err
}

// isMissing reports whether a program was not started because it is not on the node.
func isMissing(err error) bool {
	return errors.Is(err, program.ErrNotFound) || program.ExitCode(err) < 0 && errors.Is(err, fs.ErrNotExist)
}

func missing(name, pkg string, err error) error {
	return fmt.Errorf("%s is not on this node; install the package %s (%w)", filepath.Base(name), pkg, err)
}
