package subpath

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Modes of mount points. A mount hides the mode of its mount point.
const (
	nestedDirMode  = 0o755
	nestedFileMode = 0o644
)

// ErrNoPoint means that there is no mount point for what is to be mounted.
var ErrNoPoint = errors.New("no mount point")

// RuntimeFiles returns the paths at which a runtime mounts a file into each container, unless the container has
// something mounted there.
func RuntimeFiles() []string { return []string{"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"} }

// Mode is what FindPoint may do.
type Mode int

const (
	// Find creates nothing.
	Find Mode = iota
	// Create creates what is missing.
	Create
	// Replace also removes an empty file, link or directory that is in the place of the other.
	Replace
)

// MountPoint is where something is mounted in a volume of a container.
type MountPoint struct {
	// Container is the container's name, Volume the volume's.
	Container, Volume string
	// Source is what the container has of the volume, on the node: the volume or a subPath of it. Path is relative to it.
	Source, Path string
	// Dir is set if what is mounted is a directory.
	Dir bool
}

// FindPoint returns nil if something can be mounted at a path below a directory that containers may write: the path has
// a directory for a directory, anything else for anything else. If mode permits that, it creates what is missing, below
// opened directories, so that no link of a container redirects it. The error is ErrEscapes if the path leads out of the
// directory, and ErrNoPoint if there is no mount point.
func FindPoint(dir, path string, wantsDir bool, mode Mode) error {
	path = filepath.Clean(path)
	if !filepath.IsLocal(path) || path == "." {
		return fmt.Errorf("%w: %q is no path below the volume", ErrNoPoint, path)
	}
	v, err := openVolume(dir)
	if err != nil {
		return err
	}
	defer v.close()
	fd, err := v.open(path, 0)
	switch {
	case err == nil:
		is := isDir(fd)
		_ = unix.Close(fd)
		switch {
		case is == wantsDir:
			return nil
		case mode != Replace:
			return fmt.Errorf("%w: there is %s, and %s is needed", ErrNoPoint, aDir(is), aDir(wantsDir))
		}
	case !errors.Is(err, unix.ENOENT):
		return err
	case mode == Find:
		return fmt.Errorf("%w: nothing is there, and %s is needed", ErrNoPoint, aDir(wantsDir))
	}
	return v.createPoint(path, wantsDir, mode)
}

func aDir(is bool) string {
	if is {
		return "a directory"
	}
	return "a file"
}

func isDir(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// createPoint creates a mount point, and the directories above it that are missing.
func (v volume) createPoint(path string, wantsDir bool, mode Mode) error {
	parts := strings.Split(path, "/")
	parent, missing, err := v.openExisting(parts)
	for ; len(missing) > 1 && err == nil; missing = missing[1:] {
		var child int
		child, err = createIn(parent, missing[0], nestedDirMode)
		_ = unix.Close(parent)
		parent = child
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoPoint, err)
	}
	defer func() { _ = unix.Close(parent) }()
	name := missing[0]
	if mode == Replace {
		if err := removeEmpty(parent, name); err != nil {
			return err
		}
	}
	if wantsDir {
		fd, err := createIn(parent, name, nestedDirMode)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoPoint, err)
		}
		return unix.Close(fd)
	}
	fd, err := openat2(parent, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW, inVolume)
	if err != nil {
		return fmt.Errorf("%w: create the file %s: %w", ErrNoPoint, name, err)
	}
	return errors.Join(unix.Fchmod(fd, nestedFileMode), unix.Close(fd))
}

// removeEmpty removes what is in the place of a mount point: a directory if it is empty.
func removeEmpty(parent int, name string) error {
	err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTDIR) {
		err = unix.Unlinkat(parent, name, 0)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%w: remove what is in its place: %w", ErrNoPoint, err)
	}
	return nil
}
