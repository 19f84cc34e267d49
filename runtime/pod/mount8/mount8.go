package mount8

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/pod/mounts"
	"github.com/journalet/journalet/runtime/program"
)

const (
	// unmountTimeout bounds umount(8) before it is forced (kubelet: 1 min), and forceTimeout the forced one.
	unmountTimeout, forceTimeout = time.Minute, 30 * time.Second
	// maxStacked bounds how many mounts are removed from one directory.
	maxStacked = 16
	// openedTarget is the directory that mount(8) gets as its first descriptor beside the standard ones. It is opened
	// without following a link, so no link redirects the mount.
	openedTarget = "/proc/self/fd/3"
)

// Options configure a Mounter; MountTimeout must be set.
type Options struct {
	// Mount and Umount are the programs. Default: mount and umount in PATH.
	Mount, Umount string
	// MountTimeout, UnmountTimeout and ForceTimeout bound one process of a mount, an unmount and a forced one. Default of
	// the latter: 1 min, and 30 s.
	MountTimeout, UnmountTimeout, ForceTimeout time.Duration
}

// Mounter mounts and unmounts. What is mounted is in the mount table only.
type Mounter struct {
	Options
	Runs program.Runs
}

// New returns a Mounter; hangs is the error of what does not end in time.
func New(o Options, hangs error) *Mounter {
	if o.Mount == "" {
		o.Mount = "mount"
	}
	if o.Umount == "" {
		o.Umount = "umount"
	}
	if o.UnmountTimeout == 0 {
		o.UnmountTimeout, o.ForceTimeout = unmountTimeout, forceTimeout
	}
	return &Mounter{Options: o, Runs: program.Runs{Hangs: hangs}}
}

// What is what is mounted.
type What struct {
	// Kind is the type of the file system, Device what has it, Options one word as Join returns it.
	Kind, Device, Options string
	// Helper: mount(8) has a helper for it, which resolves the directory by itself.
	Helper bool
}

// Mount mounts something at the directory target, which open opens. It is idempotent: while something is mounted there,
// it does nothing, and opens nothing: that is the server's by then. So the mount that a process of an earlier agent has
// completed meanwhile counts, too.
func (m *Mounter) Mount(ctx context.Context, target string, open func() (*os.File, error), w What) error {
	if mounted, err := mounts.At(target); mounted || err != nil {
		return err
	}
	dir, err := open()
	if err != nil {
		return fmt.Errorf("open the directory of a volume: %w", err)
	}
	defer dir.Close()
	args := []string{"--no-canonicalize", "-t", w.Kind}
	if w.Options != "" {
		args = append(args, "-o", w.Options)
	}
	at := openedTarget
	if !w.Helper {
		at += "/." // the newer system calls for mounts follow no link at the end of a path
	}
	args = append(args, "--", w.Device, at)
	err = m.Runs.Do(ctx, program.Run{
		Does: "mount", Key: "mount " + target, Program: m.Options.Mount, Args: args, File: dir, Timeout: m.MountTimeout,
	})
	mounted, unread := mounts.At(target)
	switch {
	case unread != nil:
		return errors.Join(err, unread)
	case mounted:
		return nil
	case err == nil:
		return fmt.Errorf("mount %s: mount(8) has succeeded, and nothing is mounted at %s", w.Device, target)
	}
	return fmt.Errorf("mount %s: %w", w.Device, err)
}

// Unmount unmounts what is mounted at a directory, and leaves the directory. An unmount that does not end is forced
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
	r := program.Run{
		Does: "unmount", Key: "unmount " + target, Program: m.Umount, Args: []string{"--no-canonicalize", "--", target},
		Timeout: m.UnmountTimeout,
	}
	err := m.Runs.Do(ctx, r)
	if !errors.Is(err, m.Runs.Hangs) {
		return busy(err)
	}
	r.Does, r.Key = "forced unmount", "forced unmount "+target
	r.Args, r.Timeout = slices.Insert(r.Args, 0, "--force"), m.ForceTimeout
	if forced := m.Runs.Do(ctx, r); forced != nil {
		return fmt.Errorf("unmount %s: %w, and to force it: %w", target, m.Runs.Hangs, busy(forced))
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
