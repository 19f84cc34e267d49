package subpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Names and modes of the kubelet's directories and files.
const (
	mountsDir  = "volume-subpaths"
	parentMode = 0o750
	pointMode  = 0o640
)

// maxStacked bounds how many mounts are removed from one mount point.
const maxStacked = 64

// Path is a path in a volume that one container mounts.
type Path struct {
	// PodDir is the pod's directory, which must exist. Only the agent may write it.
	PodDir string
	// Volume is the volume's name and VolumePath its directory on the node.
	Volume, VolumePath string
	// Container is the container's name, and Index the number of the mount in its manifest.
	Container string
	Index     int
	// SubPath is relative to the volume, without "..".
	SubPath string
}

// check refuses names that are more than a path element, and paths that lead out of the volume by themselves.
func (p Path) check() error {
	for _, name := range []string{p.Volume, p.Container} {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("%q is not a name", name)
		}
	}
	switch {
	case filepath.IsAbs(p.SubPath):
		return fmt.Errorf("subPath %q must not be an absolute path", p.SubPath)
	case p.SubPath == "" || slices.Contains(strings.Split(p.SubPath, "/"), ".."):
		return fmt.Errorf("subPath %q must name a path without .. in the volume", p.SubPath)
	}
	return nil
}

// Prepare mounts a path of a volume below the pod's directory and returns where: PodDir/volume-subpaths/<volume>/
// <container>/<index>, as the kubelet. A missing path becomes a directory with the volume's mode. Prepare may be
// repeated, also after a crash: a mount of the same file stays, any other is replaced. The error is ErrEscapes if the
// path leads out of the volume, ErrCreate if a directory cannot be created, and ErrGone if the path is missing and was
// no directory when it was mounted before. The volume driver's tear-down removes the mounts. Calls for one container
// must not overlap.
func Prepare(p Path) (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	v, err := openVolume(p.VolumePath)
	if err != nil {
		return "", err
	}
	defer v.close()
	point, err := openPoint(p)
	if err != nil {
		return "", err
	}
	defer point.close()
	for attempt := 1; ; attempt++ {
		err := v.mountAt(point, p.SubPath)
		// Another container has removed or replaced the file meanwhile: the kernel binds none that has no name any more.
		if !errors.Is(err, errRemoved) || attempt == maxAttempts {
			return point.path, err
		}
	}
}

// errRemoved means that what was opened has no name any more.
var errRemoved = errors.New("it was removed or replaced meanwhile")

// mountAt mounts a path of the volume at a point, unless the point shows it already.
func (v volume) mountAt(p point, path string) error {
	source, err := v.openOrCreate(filepath.Clean(path), p.wasFile())
	if err != nil {
		return fmt.Errorf("open subPath %q: %w", path, err)
	}
	defer func() { _ = unix.Close(source) }()
	same, err := p.shows(source)
	if err == nil && !same {
		err = p.bind(source)
	}
	if err != nil {
		return fmt.Errorf("mount subPath %q: %w", path, err)
	}
	return nil
}

// point is where a path is mounted: a name in an opened directory.
type point struct {
	dir  *os.File
	name string
	path string
}

func openPoint(p Path) (point, error) {
	pod, err := os.OpenRoot(p.PodDir)
	if err != nil {
		return point{}, fmt.Errorf("open the pod's directory: %w", err)
	}
	defer pod.Close()
	rel := filepath.Join(mountsDir, p.Volume, p.Container)
	if err := pod.MkdirAll(rel, parentMode); err != nil {
		return point{}, fmt.Errorf("create the directory of mounts: %w", err)
	}
	dir, err := pod.Open(rel)
	if err != nil {
		return point{}, fmt.Errorf("open the directory of mounts: %w", err)
	}
	name := strconv.Itoa(p.Index)
	return point{dir: dir, name: name, path: filepath.Join(p.PodDir, rel, name)}, nil
}

func (p point) close() { _ = p.dir.Close() }

// at returns the descriptor of the point's directory.
func (p point) at() int { return int(p.dir.Fd()) }

// mounted reports whether something is mounted at the point. What cannot be inspected, such as a mount whose server is
// gone, counts as mounted.
func (p point) mounted() (is bool, st unix.Statx_t, err error) {
	err = unix.Statx(p.at(), p.name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE|unix.STATX_INO, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, st, nil
	case err != nil:
		return true, st, nil
	case st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return false, st, ErrKernel
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, st, nil
}

// wasFile reports whether something else than a directory was mounted at the point before. Also after a reboot: the
// mount point has remained.
func (p point) wasFile() bool {
	_, st, err := p.mounted()
	return err == nil && st.Mask&unix.STATX_TYPE != 0 && st.Mode&unix.S_IFMT != 0 && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

// shows reports whether a mount of this file is there.
func (p point) shows(source int) (bool, error) {
	is, st, err := p.mounted()
	if err != nil || !is || st.Mask&unix.STATX_INO == 0 {
		return false, err
	}
	var want unix.Statx_t
	if err := unix.Statx(source, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE|unix.STATX_INO, &want); err != nil {
		return false, fmt.Errorf("inspect the path: %w", err)
	}
	return want.Ino == st.Ino && want.Dev_major == st.Dev_major && want.Dev_minor == st.Dev_minor, nil
}

// bind mounts an opened file at the point, in place of what is there.
func (p point) bind(source int) error {
	if err := p.clear(); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return fmt.Errorf("inspect the path: %w", err)
	}
	if err := p.create(st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return fmt.Errorf("create the mount point %s: %w", p.path, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		if kept, err := p.keep(source); err == nil {
			defer func() { _ = unix.Close(kept) }()
			source = kept
		}
	}
	clone, err := unix.OpenTree(source, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err == nil {
		err = unix.MoveMount(clone, "", p.at(), p.name, unix.MOVE_MOUNT_F_EMPTY_PATH)
		_ = unix.Close(clone)
	}
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("%w: %w", errRemoved, err)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("bind it to %s: %w", p.path, err), p.clear())
	}
	return nil
}

// keptSuffix ends the name of a link beside the mount point, which has the mounted file as well.
const keptSuffix = ".kept"

// keep gives an opened file one more name, beside the mount point, and opens it there. The runtime binds the mount once
// more when it starts the container, and the kernel binds nothing that has lost its name: a container may have replaced
// the file by then. It fails where the file is on another mount, as in a hostPath or in memory.
func (p point) keep(source int) (int, error) {
	name := p.name + keptSuffix
	if err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", source), p.at(), name,
		unix.AT_SYMLINK_FOLLOW); err != nil {
		return -1, err
	}
	return openat2(p.at(), name, unix.O_PATH|unix.O_NOFOLLOW, inVolume|unix.RESOLVE_NO_SYMLINKS)
}

// create creates the mount point: an empty directory, or an empty file for every other type.
func (p point) create(dir bool) error {
	if dir {
		return unix.Mkdirat(p.at(), p.name, parentMode)
	}
	fd, err := openat2(p.at(), p.name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, inVolume)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fchmod(fd, pointMode), unix.Close(fd))
}

// clear unmounts and removes the point. A file that a container holds open stays open to it, as with the kubelet's lazy
// unmount.
func (p point) clear() error {
	for n := 0; ; n++ {
		is, _, err := p.mounted()
		if err != nil {
			return err
		}
		if !is {
			break
		}
		if n == maxStacked {
			return fmt.Errorf("more than %d mounts are at %s; unmount them", maxStacked, p.path)
		}
		// The magic link leads to the opened directory, whatever its path leads to now.
		at := fmt.Sprintf("/proc/self/fd/%d/%s", p.at(), p.name)
		if err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", p.path, err)
		}
	}
	if err := unix.Unlinkat(p.at(), p.name+keptSuffix, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the link beside the mount point %s: %w", p.path, err)
	}
	err := unix.Unlinkat(p.at(), p.name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTDIR) {
		err = unix.Unlinkat(p.at(), p.name, 0)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the mount point %s: %w", p.path, err)
	}
	return nil
}
