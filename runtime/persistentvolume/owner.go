package persistentvolume

import (
	"context"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/journalet/journalet/runtime/bounded"
)

// Modes that the group of a volume gets, at least. kubelet: the same.
const (
	groupMode    fs.FileMode = 0o660
	groupExecute fs.FileMode = 0o110
)

// group returns the pod's fsGroup; nil: it has none.
func (s *setUp) group() *int64 {
	if c := s.pod.Spec.SecurityContext; c != nil {
		return c.FSGroup
	}
	return nil
}

// own gives a volume to the pod's fsGroup, if the driver does not and its policy wants it.
func (s *setUp) own(ctx context.Context, target string) error {
	if s.src.block || s.group() == nil || s.can.group || s.src.readOnly || !s.agentOwns() {
		return nil
	}
	root, err := os.OpenRoot(target)
	if err != nil {
		return err
	}
	defer root.Close()
	gid := int(*s.group())
	if p := s.pod.Spec.SecurityContext.FSGroupChangePolicy; p != nil && *p == corev1.FSGroupChangeOnRootMismatch {
		owned, err := isOwned(root, gid)
		if owned || err != nil {
			return err
		}
	}
	began, p := s.opts.Clock.Now(), s.watchOwnership(target)
	err = chown(ctx, root, gid, &p.files)
	p.stop()
	s.observe(ctx, opOwn, began, err)
	return err
}

// agentOwns reports whether the driver's policy leaves the ownership of the volume to the agent.
func (s *setUp) agentOwns() bool {
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if p := s.src.driver.FSGroupPolicy; p != nil {
		policy = *p
	}
	switch policy {
	case storagev1.FileFSGroupPolicy:
		return true
	case storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy:
		return s.src.fsType != "" &&
			(s.src.accessMode == corev1.ReadWriteOnce || s.src.accessMode == corev1.ReadWriteOncePod)
	}
	return false
}

// isOwned reports whether the root of a volume has its group and mode already.
func isOwned(root *os.Root, gid int) (bool, error) {
	info, err := root.Lstat(".")
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, nil
	}
	want := fs.ModeSetgid | groupMode | groupExecute
	return int(st.Gid) == gid && info.Mode()&want == want, nil
}

// chown gives all files of a volume to a group, and the root last: a walk that was cut short does not count as a whole
// one. What it finds out of a file and what it changes are of one descriptor: a container that uses the volume already
// can put no link and no other file between the two.
// files counts the files that have been given.
func chown(ctx context.Context, root *os.Root, gid int, files *atomic.Int64) error {
	err := bounded.Each(ctx, root, func(fd int, st *unix.Stat_t) error {
		files.Add(1)
		return chownOne(fd, st, gid)
	})
	if err != nil {
		return err
	}
	top, err := root.OpenFile(".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer top.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(top.Fd()), &st); err != nil {
		return err
	}
	return chownOne(int(top.Fd()), &st, gid)
}

// modeBits are the bits of a mode that a file keeps, the kubelet's: a change of the group takes setuid and setgid off.
const modeBits = 0o7777

// chownOne gives the file of a descriptor to a group.
func chownOne(fd int, st *unix.Stat_t, gid int) error {
	if err := unix.Fchownat(fd, "", -1, gid, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFLNK {
		return nil
	}
	mode := st.Mode&modeBits | uint32(groupMode)
	if kind == unix.S_IFDIR {
		mode |= unix.S_ISGID | uint32(groupExecute)
	}
	// fchmod refuses a descriptor of O_PATH. This name leads to the descriptor's file, whatever is at its path by now.
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}
