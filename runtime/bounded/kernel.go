package bounded

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Dir is an open directory of a file system that the kernel writes, such as a cgroup or a process of /proc.
type Dir struct {
	fd   int
	path string
}

// wholeBytes is what the kernel never splits: it fills a page with whole records, and the records of its files are
// short. A first read of fewer bytes has found the end.
const wholeBytes = 1 << 10

// OpenDir opens a directory to read files of it with ReadInto. The caller closes it.
func OpenDir(path string) (Dir, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return Dir{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return Dir{fd, path}, nil
}

// Close closes the directory.
func (d Dir) Close() { _ = unix.Close(d.fd) }

// ReadInto reads a file of the directory into buf and returns what it read: three system calls for a short one, no
// allocation. A file that does not fit is ErrTooLarge, with its beginning. It follows no link and waits for no writer.
// Unlike ReadFile it trusts that the file is no device: only the kernel may create files in the directory.
func (d Dir) ReadInto(name string, buf []byte) ([]byte, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path + string(os.PathSeparator) + name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	for n := 0; ; {
		more, err := retry(func() (int, error) { return unix.Read(fd, buf[n:]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: d.path + string(os.PathSeparator) + name, Err: err}
		}
		if more <= 0 {
			return buf[:n], nil
		}
		if n += more; n == len(buf) {
			return buf, &tooLarge{int64(len(buf))}
		}
		if n == more && n < wholeBytes {
			return buf[:n], nil
		}
	}
}
