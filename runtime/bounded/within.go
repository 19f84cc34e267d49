package bounded

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// maxRaces bounds how often an open is repeated that somebody raced with renames.
const maxRaces = 32

// ReadFileWithin returns the content of a regular file of at most limit bytes. dir is the root for it, as it is for a
// process in a container: a link leads nowhere else, neither does "..". Without openat2, as before Linux 5.6, an
// absolute link is an error instead. A longer file is ErrTooLarge.
func ReadFileWithin(dir, name string, limit int64) ([]byte, error) {
	f, err := openWithin(dir, name)
	return readAndClose(f, limit, err)
}

func openWithin(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	top, err := root.OpenFile(".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd, err := retry(func() (int, error) { return unix.Openat2(int(top.Fd()), name, &how) })
	for range maxRaces {
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
		fd, err = retry(func() (int, error) { return unix.Openat2(int(top.Fd()), name, &how) })
	}
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return OpenIn(root, name) // a kernel before 5.6, or a filter of system calls
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	return openRegular(fd, name)
}
