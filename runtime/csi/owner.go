package csi

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"

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
	return chown(ctx, root, gid)
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

// chown gives all files of a volume to a group. It follows no link, and has the root last: a walk that was cut short
// does not count as a whole one.
func chown(ctx context.Context, root *os.Root, gid int) error {
	dirs := []string{"."}
	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		for e, err := range bounded.EntriesIn(root, dir) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			name := path.Join(dir, e.Name())
			if err := chownOne(root, name, gid); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if e.IsDir() {
				dirs = append(dirs, name)
			}
		}
	}
	return chownOne(root, ".", gid)
}

func chownOne(root *os.Root, name string, gid int) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if err := root.Lchown(name, -1, gid); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	mode := info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) | groupMode
	if info.IsDir() {
		mode |= fs.ModeSetgid | groupExecute
	}
	return root.Chmod(name, mode)
}
