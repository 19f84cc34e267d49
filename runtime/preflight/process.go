package preflight

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fileID identifies a file on this machine.
type fileID struct {
	major, minor uint32
	ino          uint64
}

// idOf returns the identity of a file from what the kernel has of it: a file system in a container's hands, such as one
// by FUSE, is not asked.
func idOf(dir int, path string, flags int) (fileID, error) {
	var st unix.Statx_t
	err := unix.Statx(dir, path, flags|unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_INO, &st)
	return fileID{st.Dev_major, st.Dev_minor, st.Ino}, err
}

// hasOurRoot reports whether a process has the same root directory as this one. A container has its own.
func (m *machine) hasOurRoot(pid int) bool {
	ours, err := idOf(unix.AT_FDCWD, m.path("/"), 0)
	theirs, err2 := idOf(unix.AT_FDCWD, m.path(fmt.Sprintf("proc/%d/root", pid)), 0)
	return err == nil && err2 == nil && ours == theirs
}

// hasOurSocket reports whether our path leads to our socket in the root of a process.
func (m *machine) hasOurSocket(pid int) bool {
	path := socketPath(m.cfg.ContainerRuntimeEndpoint)
	ours, err := idOf(unix.AT_FDCWD, m.path(path), 0)
	if err != nil {
		return false
	}
	theirs, err := idIn(m.path(fmt.Sprintf("proc/%d/root", pid)), path)
	return err == nil && ours == theirs
}

// idIn returns the identity of the file that a process with this root sees at path. A link of the container is followed
// within its root: an absolute one would lead to the host's file otherwise.
func idIn(root, path string) (fileID, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fileID{}, err
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return idBelow(root, path) // a kernel before 5.6, or a filter of system calls
	}
	if err != nil {
		return fileID{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	return idOf(fd, "", unix.AT_EMPTY_PATH)
}

// idBelow is idIn that follows no absolute link.
func idBelow(root, path string) (fileID, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return fileID{}, err
	}
	defer dir.Close()
	f, err := dir.OpenFile(strings.TrimPrefix(path, "/"), unix.O_PATH, 0)
	if err != nil {
		return fileID{}, err
	}
	defer f.Close()
	return idOf(int(f.Fd()), "", unix.AT_EMPTY_PATH)
}
