package nfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/journalet/journalet/runtime/pod/mount8"
)

// mountTimeout bounds mount(8). mount.nfs itself gives up after 2 min, and then has a reason.
const mountTimeout = 2*time.Minute + 10*time.Second

// errHangs means that a process did not end in time.
var errHangs = errors.New("the server does not answer")

// Options configure a Mounter; the zero value is for a node.
type Options struct {
	// Mount and Umount are the programs. Default: mount and umount in PATH.
	Mount, Umount string
	// Helpers are the directories where mount(8) finds mount.nfs. Default: the directories of util-linux.
	Helpers []string
	// MountTimeout, UnmountTimeout and ForceTimeout bound one process of a mount, an unmount and a forced one.
	MountTimeout, UnmountTimeout, ForceTimeout time.Duration
}

// Mounter mounts and unmounts exports. What is mounted is in the mount table only.
type Mounter struct {
	*mount8.Mounter
	helpers []string
}

// New returns a Mounter.
func New(o Options) *Mounter {
	if o.Helpers == nil {
		o.Helpers = []string{"/sbin", "/sbin/fs.d", "/sbin/fs"}
	}
	if o.MountTimeout == 0 {
		o.MountTimeout = mountTimeout
	}
	return &Mounter{helpers: o.Helpers, Mounter: mount8.New(mount8.Options{
		Mount: o.Mount, Umount: o.Umount, MountTimeout: o.MountTimeout, UnmountTimeout: o.UnmountTimeout,
		ForceTimeout: o.ForceTimeout,
	}, errHangs)}
}

// Mount mounts an export at the directory target, which open opens. It is idempotent, as mount8's is.
func (m *Mounter) Mount(ctx context.Context, target string, open func() (*os.File, error), s Source) error {
	if err := s.check(); err != nil {
		return err
	}
	err := m.Mounter.Mount(ctx, target, open, mount8.What{
		Kind: "nfs", Device: s.device(), Options: s.options(), Helper: true,
	})
	if err == nil || m.hasHelper() {
		return err
	}
	return fmt.Errorf("mount %s: mount.nfs is not on this node; install the package nfs-common (Debian, Ubuntu) or "+
		"nfs-utils (%w)", s.device(), err)
}

// hasHelper reports whether mount(8) finds mount.nfs.
func (m *Mounter) hasHelper() bool {
	return slices.ContainsFunc(m.helpers, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "mount.nfs"))
		return err == nil
	})
}
