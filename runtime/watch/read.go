package watch

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// maxReadTries bounds the attempts to read a file that changes during the read.
	maxReadTries = 3
	// racyWindow is the minimum age of a file whose time stamps reveal every later change. The next reread reads a younger
	// file again, because a second change within one tick of the file system's clock leaves the time stamps unchanged.
	racyWindow = 2 * time.Second
)

// ErrChanging means that a file changed during every attempt to read it.
var ErrChanging = errors.New("the file changes during the read")

// inode identifies a file or directory while it exists.
type inode struct{ dev, ino uint64 }

// Stamp is the metadata of a file that a change shows in. Stamps are comparable.
type Stamp struct {
	id           inode
	size         int64
	mtime, ctime unix.Timespec
	mode         uint32
}

// IsDir reports whether the stamp is of a directory.
func (s *Stamp) IsDir() bool { return s.mode&unix.S_IFMT == unix.S_IFDIR }

// IsRegular reports whether the stamp is of a regular file.
func (s *Stamp) IsRegular() bool { return s.mode&unix.S_IFMT == unix.S_IFREG }

// Shared reports whether others than the owner may read, write or execute the file.
func (s *Stamp) Shared() bool { return s.mode&0o077 != 0 }

// Modified returns when the content was written.
func (s *Stamp) Modified() time.Time { return time.Unix(s.mtime.Unix()) }

// Racy reports whether a change at the time now might not change this stamp.
func (s *Stamp) Racy(now time.Time) bool {
	return now.Sub(time.Unix(s.ctime.Unix())) < racyWindow || now.Sub(time.Unix(s.mtime.Unix())) < racyWindow
}

func stampOf(st *unix.Stat_t) Stamp {
	return Stamp{
		id: inode{dev: st.Dev, ino: st.Ino}, size: st.Size, mtime: st.Mtim, ctime: st.Ctim, mode: st.Mode,
	}
}

// Stat follows symbolic links, as the kubelet does.
func Stat(path string) (Stamp, error) {
	var st unix.Stat_t
	for {
		err := unix.Stat(path, &st)
		if err == nil {
			return stampOf(&st), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return Stamp{}, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
	}
}

// Read reads a regular file, at most limit plus one bytes, so that the caller can refuse more. It fails with
// ErrChanging if the file changes during each attempt.
func Read(path string, limit int64) ([]byte, Stamp, error) {
	for range maxReadTries {
		data, st, err := readOnce(path, limit)
		if !errors.Is(err, ErrChanging) {
			return data, st, err
		}
	}
	return nil, Stamp{}, ErrChanging
}

func readOnce(path string, limit int64) ([]byte, Stamp, error) {
	f, err := bounded.Open(path)
	if errors.Is(err, bounded.ErrNotRegular) {
		return nil, Stamp{}, ErrChanging // it was regular just before
	}
	if err != nil {
		return nil, Stamp{}, err
	}
	defer f.Close()
	before, err := statFile(f)
	if err != nil {
		return nil, Stamp{}, err
	}
	data, err := bounded.ReadAll(f, limit+1)
	if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return nil, Stamp{}, err
	}
	after, err := statFile(f)
	if err != nil {
		return nil, Stamp{}, err
	}
	// The name may have got another file meanwhile.
	named, err := Stat(path)
	if err != nil {
		return nil, Stamp{}, err
	}
	complete := int64(len(data)) == after.size || int64(len(data)) > limit
	if before != after || named != after || !complete {
		return nil, Stamp{}, ErrChanging
	}
	return data, after, nil
}

func statFile(f *os.File) (Stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Stamp{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return stampOf(&st), nil
}
