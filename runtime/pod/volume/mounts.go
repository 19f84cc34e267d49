package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Types of file systems that volumes are.
const (
	tmpfs     = "tmpfs"
	hugetlbfs = "hugetlbfs"
)

// fileSystem is a file system of a volume that is not on disk.
type fileSystem struct {
	// kind is tmpfs or hugetlbfs.
	kind string
	// sizeBytes bounds a tmpfs; 0: the kernel's default, half of the memory.
	sizeBytes int64
	// pageSize is the page size of a hugetlbfs, such as 2Mi.
	pageSize string
	// fsGroup owns its root; nil: root's group.
	fsGroup *int64
}

// options returns the mount's options. The root of a tmpfs has its owner and mode from the start, so that a mount that
// is there is complete.
func (f fileSystem) options() []string {
	if f.kind == hugetlbfs {
		return []string{"pagesize=" + f.pageSize}
	}
	var out []string
	if f.sizeBytes > 0 {
		out = append(out, fmt.Sprintf("size=%d", f.sizeBytes))
	}
	if f.fsGroup != nil {
		out = append(out, "mode=3777", fmt.Sprintf("gid=%d", *f.fsGroup))
	}
	return out
}

// mounter is the kernel's mount table.
type mounter interface {
	// mount mounts a new file system at the directory path, which is no link. A tmpfs is never swapped out, where the
	// kernel can promise that (6.4 and newer).
	mount(path string, fs fileSystem) error
	unmount(path string) error
	// kindAt returns the type of the file system that is mounted at path; "" if path is no mount point.
	kindAt(path string) (string, error)
	// below lists the mounts at and below path, each mount after its parent mount.
	below(path string) ([]mountPoint, error)
}

// mountPoint is a line of the mount table. device is major:minor. root is the path in the file system that it shows,
// and bound whether that is a part only, as with a bind mount of a directory. A root that was removed ends with
// //deleted.
type mountPoint struct {
	path, fsType, device, root string
	bound                      bool
}

// kernelMounter calls the kernel. mount-utils would start mount(8), and systemd-run to ask for a scope (ADR 041).
type kernelMounter struct{}

func (kernelMounter) mount(path string, f fileSystem) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	target := fmt.Sprintf("/proc/self/fd/%d", fd)
	options := f.options()
	if f.kind == tmpfs {
		err := unix.Mount(tmpfs, target, tmpfs, 0, strings.Join(append(options, "noswap"), ","))
		if !errors.Is(err, unix.EINVAL) { // an older kernel, or a user namespace
			return err
		}
	}
	return unix.Mount(f.kind, target, f.kind, 0, strings.Join(options, ","))
}

func (kernelMounter) unmount(path string) error {
	return unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
}

func (m kernelMounter) kindAt(path string) (string, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		return "", nil
	case errors.Is(err, unix.ENOSYS) || err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return m.kindInTable(path) // a kernel before 5.8
	case err != nil:
		return "", fmt.Errorf("inspect the mount at %s: %w", path, err)
	case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return "", nil
	}
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "", fmt.Errorf("inspect the file system at %s: %w", path, err)
	}
	switch s.Type {
	case unix.TMPFS_MAGIC:
		return tmpfs, nil
	case unix.HUGETLBFS_MAGIC:
		return hugetlbfs, nil
	}
	return fmt.Sprintf("file system %#x", s.Type), nil
}

func (m kernelMounter) kindInTable(path string) (string, error) {
	points, err := m.below(path)
	if err != nil {
		return "", err
	}
	kind := ""
	for _, p := range points {
		if p.path == filepath.Clean(path) {
			kind = p.fsType
		}
	}
	return kind, nil
}

func (kernelMounter) below(path string) ([]mountPoint, error) {
	// The mount table has real paths, and the path of the root directory may have links.
	resolved, err := filepath.EvalSymlinks(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	filter := mountinfo.PrefixFilter(resolved)
	if resolved == "/" {
		filter = nil // it would be "//"
	}
	infos, err := mountinfo.GetMounts(filter)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	points := make([]mountPoint, 0, len(infos))
	for _, i := range sortMounts(infos) {
		rel, err := filepath.Rel(resolved, i.Mountpoint)
		if err != nil {
			return nil, err
		}
		points = append(points, mountPoint{
			path: filepath.Join(path, rel), fsType: i.FSType, device: fmt.Sprintf("%d:%d", i.Major, i.Minor),
			root: i.Root, bound: i.Root != "/",
		})
	}
	return points, nil
}

// sortMounts puts each mount after its parent mount. The table's own order does not promise that.
func sortMounts(infos []*mountinfo.Info) []*mountinfo.Info {
	children := make(map[int][]*mountinfo.Info, len(infos))
	known := make(map[int]bool, len(infos))
	for _, i := range infos {
		known[i.ID] = true
	}
	var queue []*mountinfo.Info
	for _, i := range infos {
		if known[i.Parent] && i.Parent != i.ID {
			children[i.Parent] = append(children[i.Parent], i)
		} else {
			queue = append(queue, i)
		}
	}
	out := make([]*mountinfo.Info, 0, len(infos))
	for len(queue) > 0 {
		out = append(out, queue[0])
		queue = append(queue[1:], children[queue[0].ID]...)
	}
	return out
}
