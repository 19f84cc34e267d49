package bounded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxWait bounds the time until a file is read that is regular by its mode and waits for data nevertheless, such as
// /proc/kmsg.
const maxWait = 100 * time.Millisecond

var (
	// ErrTooLarge means that there are more bytes than the limit. It comes with the bytes up to the limit.
	ErrTooLarge = errors.New("too large")
	// ErrNotRegular means that a path is a directory, a pipe, a socket, a device, or a link that is not followed.
	ErrNotRegular = errors.New("not a regular file; put a regular file there")
)

// tooLarge is ErrTooLarge with the limit in bytes.
type tooLarge struct{ limit int64 }

func (e *tooLarge) Error() string {
	return fmt.Sprintf("more than %d bytes, which is the limit; shorten it", e.limit)
}

func (e *tooLarge) Is(target error) bool { return target == ErrTooLarge }

// Open opens a regular file for reading. It follows links, because the operator names the path. It neither waits for
// the writer of a pipe nor opens a device: the kind is known before the file is opened.
func Open(path string) (*os.File, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	return openRegular(fd, path)
}

// OpenIn opens a regular file below root for reading. It follows neither a link out of root nor one at the end of the
// name: use it wherever others than the operator write.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	at, err := root.OpenFile(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	return openRegular(int(at.Fd()), at.Name())
}

// openRegular opens for reading what fd, of O_PATH, names.
func openRegular(fd int, path string) (*os.File, error) {
	var st unix.Stat_t
	_, err := retry(func() (int, error) { return 0, unix.Fstat(fd, &st) })
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	var in int
	if err == nil {
		// Not blocking: a container may hold a lease on its file.
		in, err = retry(func() (int, error) {
			return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		})
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(in), path)
	// A file system without waiting has no deadlines.
	_ = f.SetReadDeadline(time.Now().Add(maxWait))
	return f, nil
}

// retry repeats a system call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// ReadFile returns the content of a regular file of at most limit bytes. It follows links. A longer file is
// ErrTooLarge, and its first bytes are returned with it.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	return readAndClose(f, limit, err)
}

// ReadFileIn is ReadFile of a file below root, and follows no link as OpenIn.
func ReadFileIn(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := OpenIn(root, name)
	return readAndClose(f, limit, err)
}

func readAndClose(f *os.File, limit int64, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := ReadAll(f, limit)
	if errors.Is(err, ErrTooLarge) {
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: err}
	}
	return data, err
}

// ReadTailIn returns the last n bytes of a regular file below root, all of a shorter one. It follows no link as OpenIn.
func ReadTailIn(root *os.Root, name string, n int64) ([]byte, error) {
	f, err := OpenIn(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() > n {
		_, err = f.Seek(-n, io.SeekEnd)
	}
	if err != nil {
		return nil, err
	}
	data, err := ReadAll(f, n)
	if errors.Is(err, ErrTooLarge) { // it grew meanwhile
		err = nil
	}
	return data, err
}

// ReadAll returns what r has, at most limit bytes. If there is more, it returns the first limit bytes and ErrTooLarge.
// It allocates as bytes arrive, at most twice the limit.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return data[:limit], &tooLarge{limit}
	}
	return data, err
}
