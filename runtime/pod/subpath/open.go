package subpath

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Errors of Prepare that callers act on.
var (
	// ErrEscapes means that the path leads out of its volume.
	ErrEscapes = errors.New("the path leads out of its volume; remove the link in the volume that does")
	// ErrCreate means that a missing directory of the path cannot be created.
	ErrCreate = errors.New("a directory of the path cannot be created")
	// ErrGone means that nothing is at the path where a file, a socket or a device was mounted before.
	ErrGone = errors.New("nothing is there, where a file was mounted before; no directory is created in its place")
	// ErrKernel means that the kernel cannot open a path safely, or report what is a mount.
	ErrKernel = errors.New("the kernel lacks openat2 or statx of mounts, which subPath needs; use Linux 5.8 or newer")
)

// maxAttempts bounds how often a path is resolved again because the volume changed meanwhile.
const maxAttempts = 64

// inVolume resolves links, but not out of the directory, and none of /proc.
const inVolume = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

// openat2 opens a path below the directory at. It opens it again where the kernel asks for that: after a signal, and
// after a rename beside a "..".
func openat2(at int, path string, flags, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve}
	for attempt := 1; ; attempt++ {
		fd, err := unix.Openat2(at, path, &how)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN) && attempt < maxAttempts:
		case errors.Is(err, unix.ENOSYS):
			return -1, ErrKernel
		default:
			return fd, err
		}
	}
}

// volume is an opened volume.
type volume struct {
	fd int
	// path is the volume's own path.
	path string
}

// openVolume opens a volume's directory. The links in its own path are the node's, and are followed.
func openVolume(path string) (volume, error) {
	fd, err := openat2(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return volume{}, fmt.Errorf("open the volume: %w", err)
	}
	return volume{fd: fd, path: path}, nil
}

func (v volume) close() { _ = unix.Close(v.fd) }

// open opens a path in the volume with O_PATH. The error is ErrEscapes if the path leads out of the volume.
func (v volume) open(path string, flags uint64) (int, error) {
	fd, err := openat2(v.fd, path, unix.O_PATH|flags, inVolume)
	if !errors.Is(err, unix.EXDEV) {
		return fd, err
	}
	// An absolute link may lead to a place inside the volume, such as in a hostPath volume. Where it leads is found by
	// path, and may change at once: so this place is opened without following any link.
	inside, err := v.resolve(path)
	if err != nil {
		return -1, err
	}
	return openat2(v.fd, inside, unix.O_PATH|flags, inVolume|unix.RESOLVE_NO_SYMLINKS)
}

// resolve returns what a path in the volume leads to, relative to the volume and without links.
func (v volume) resolve(path string) (string, error) {
	base, err := filepath.EvalSymlinks(v.path)
	if err != nil {
		return "", err
	}
	full, err := filepath.EvalSymlinks(filepath.Join(v.path, path))
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(base, full)
	if err != nil || !filepath.IsLocal(rel) {
		return "", ErrEscapes
	}
	return rel, nil
}

// openOrCreate opens a clean path in the volume. What is missing of it becomes directories with the volume's mode,
// whatever the umask is. wasFile is whether it was no directory before: then it is ErrGone.
func (v volume) openOrCreate(path string, wasFile bool) (int, error) {
	fd, err := v.open(path, 0)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	if wasFile {
		return -1, ErrGone
	}
	var st unix.Stat_t
	if err := unix.Fstat(v.fd, &st); err != nil {
		return -1, err
	}
	parts := strings.Split(path, "/")
	parent, missing, err := v.openExisting(parts)
	for i := 0; i < len(missing) && err == nil; i++ {
		var child int
		child, err = createIn(parent, missing[i], st.Mode&0o7777)
		_ = unix.Close(parent)
		parent = child
	}
	if err != nil {
		return -1, fmt.Errorf("%w: %w", ErrCreate, err)
	}
	return parent, nil
}

// openExisting opens the longest part of a path that exists, and returns the rest.
func (v volume) openExisting(parts []string) (int, []string, error) {
	for n := len(parts) - 1; n > 0; n-- {
		fd, err := v.open(strings.Join(parts[:n], "/"), unix.O_DIRECTORY)
		if !errors.Is(err, unix.ENOENT) {
			return fd, parts[n:], err
		}
	}
	fd, err := v.open(".", unix.O_DIRECTORY)
	return fd, parts, err
}

// createIn creates a directory in an opened one, and opens it. A container may have put another one in its place, of
// this volume: it is never a link, nor a mount.
func createIn(parent int, name string, mode uint32) (int, error) {
	// One that exists by now is another container's: it is used as it is.
	err := unix.Mkdirat(parent, name, mode)
	created := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("create the directory %s: %w", name, err)
	}
	fd, err := openat2(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW,
		inVolume|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	if err != nil {
		return -1, fmt.Errorf("open the created directory %s: %w", name, err)
	}
	if !created {
		return fd, nil
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("set the mode of the created directory %s: %w", name, err)
	}
	return fd, nil
}
