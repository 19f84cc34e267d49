package nfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/pod/mounts"
)

const (
	// mountTimeout bounds mount(8). mount.nfs itself gives up after 2 min, and then has a reason.
	mountTimeout = 2*time.Minute + 10*time.Second
	// unmountTimeout bounds umount(8) before it is forced (kubelet: 1 min), and forceTimeout the forced one.
	unmountTimeout, forceTimeout = time.Minute, 30 * time.Second
	// maxStacked bounds how many mounts are removed from one directory.
	maxStacked = 16
	// openedTarget is the directory that mount(8) gets as its first descriptor beside the standard ones. It is opened
	// without following a link, and so is none on the way of the mount.
	openedTarget = "/proc/self/fd/3"
)

// Options configure a Mounter; the zero value is for a node.
type Options struct {
	// Mount and Umount are the programs. Default: mount and umount in PATH.
	Mount, Umount string
	// Helpers are the directories in which mount(8) finds mount.nfs. Default: those of util-linux.
	Helpers []string
	// MountTimeout, UnmountTimeout and ForceTimeout bound one process of a mount, an unmount and a forced one.
	MountTimeout, UnmountTimeout, ForceTimeout time.Duration
}

// Mounter mounts and unmounts exports. What is mounted is in the mount table only.
type Mounter struct {
	opts      Options
	processes processes
}

// New returns a Mounter.
func New(o Options) *Mounter {
	if o.Mount == "" {
		o.Mount = "mount"
	}
	if o.Umount == "" {
		o.Umount = "umount"
	}
	if o.Helpers == nil {
		o.Helpers = []string{"/sbin", "/sbin/fs.d", "/sbin/fs"}
	}
	if o.MountTimeout == 0 {
		o.MountTimeout, o.UnmountTimeout, o.ForceTimeout = mountTimeout, unmountTimeout, forceTimeout
	}
	return &Mounter{opts: o, processes: processes{
		kill: killGroup, killTimeout: killTimeout, running: map[string]bool{},
	}}
}

// Mount mounts an export at the directory target, which open opens. It is idempotent: while something is mounted there,
// it does nothing, and opens nothing: that is the server's by then. So the mount that a process of an earlier agent has
// completed meanwhile counts, too.
func (m *Mounter) Mount(ctx context.Context, target string, open func() (*os.File, error), s Source) error {
	if err := s.check(); err != nil {
		return err
	}
	if mounted, err := mounts.At(target); mounted || err != nil {
		return err
	}
	dir, err := open()
	if err != nil {
		return fmt.Errorf("open the directory of a volume: %w", err)
	}
	defer dir.Close()
	args := []string{"--no-canonicalize", "-t", "nfs"}
	if o := s.options(); o != "" {
		args = append(args, "-o", o)
	}
	args = append(args, "--", s.device(), openedTarget)
	err = m.processes.run(ctx, command{
		what: "mount", of: target, program: m.opts.Mount, args: args, file: dir, timeout: m.opts.MountTimeout,
	})
	mounted, unread := mounts.At(target)
	switch {
	case unread != nil:
		return errors.Join(err, unread)
	case mounted:
		return nil
	case err == nil:
		return fmt.Errorf("mount %s: mount(8) has succeeded, and nothing is mounted at %s", s.device(), target)
	case !m.hasHelper():
		return fmt.Errorf("mount %s: mount.nfs is not on this node; install the package nfs-common (Debian, Ubuntu) or "+
			"nfs-utils (%w)", s.device(), err)
	}
	return fmt.Errorf("mount %s: %w", s.device(), err)
}

// hasHelper reports whether mount(8) finds mount.nfs.
func (m *Mounter) hasHelper() bool {
	return slices.ContainsFunc(m.opts.Helpers, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "mount.nfs"))
		return err == nil
	})
}

// Unmount unmounts what is mounted at a directory, and leaves the directory. An unmount whose server is away is forced
// after a minute, as by the kubelet: what was not written is lost. It is never lazy: a pod has its volumes until they
// are gone. The error is unix.EBUSY if a process uses what is mounted.
func (m *Mounter) Unmount(ctx context.Context, target string) error {
	for range maxStacked {
		if mounted, err := mounts.At(target); !mounted || err != nil {
			return err
		}
		err := m.unmountOne(ctx, target)
		if err == nil {
			continue
		}
		if mounted, unread := mounts.At(target); mounted || unread != nil {
			return errors.Join(err, unread)
		}
	}
	return fmt.Errorf("more than %d mounts are at %s; unmount them", maxStacked, target)
}

func (m *Mounter) unmountOne(ctx context.Context, target string) error {
	c := command{
		what: "unmount", of: target, program: m.opts.Umount, args: []string{"--no-canonicalize", "--", target},
		timeout: m.opts.UnmountTimeout,
	}
	err := m.processes.run(ctx, c)
	if !errors.Is(err, errHangs) {
		return busy(err)
	}
	c.what, c.args, c.timeout = "forced unmount", slices.Insert(c.args, 0, "--force"), m.opts.ForceTimeout
	if forced := m.processes.run(ctx, c); forced != nil {
		return fmt.Errorf("unmount %s: its server does not answer, and to force it: %w", target, busy(forced))
	}
	return nil
}

// busy returns the error of umount(8) as unix.EBUSY if it says so: its exit code is the same for every failure.
func busy(err error) error {
	if err != nil && strings.Contains(err.Error(), "busy") {
		return fmt.Errorf("%w (%w)", err, unix.EBUSY)
	}
	return err
}
