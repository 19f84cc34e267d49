package bounded

import (
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Held is a directory that is held open. Its methods take the name of one entry, a single path element, and follow no
// link: however others rename and link meanwhile, what is opened, renamed and removed is in this directory.
type Held struct{ f *os.File }

// Hold opens a directory. It follows links in path, because the operator names it, and no link in below, a relative
// path: others than the operator may write there.
func Hold(dir, below string) (*Held, error) {
	fd, err := retry(func() (int, error) { return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	at := &Held{os.NewFile(uintptr(fd), dir)}
	for name := range strings.SplitSeq(filepath.Clean(below), "/") {
		if name == "." {
			continue
		}
		next, err := at.dir(name)
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func (h *Held) dir(name string) (*Held, error) {
	if err := single(name); err != nil {
		return nil, err
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Openat(h.fd(), name, flags, 0) })
	if err != nil {
		return nil, h.failed("open", name, err)
	}
	return &Held{os.NewFile(uintptr(fd), path.Join(h.f.Name(), name))}, nil
}

func (h *Held) fd() int { return int(h.f.Fd()) }

func (h *Held) failed(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: path.Join(h.f.Name(), name), Err: err}
}

// single rejects a name that cannot name an entry of a directory.
func single(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%q: not the name of a file", name)
	}
	return nil
}

// Close releases the directory.
func (h *Held) Close() error { return h.f.Close() }

// Name returns the path that the directory was opened by, for messages.
func (h *Held) Name() string { return h.f.Name() }

// ProcPath returns a path that leads to the directory however it was renamed, for as long as it is held.
func (h *Held) ProcPath() string { return "/proc/self/fd/" + strconv.Itoa(h.fd()) }

// Entries yields the entries in no order, in constant memory. An error ends it.
func (h *Held) Entries() iter.Seq2[fs.DirEntry, error] {
	return entriesOf(func() (*os.File, error) {
		again, err := h.Again()
		if err != nil {
			return nil, err
		}
		return again.f, nil
	})
}

// Stat describes an entry, and a link itself.
func (h *Held) Stat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := single(name)
	if err == nil {
		if err = lstatAt(h.fd(), name, &st); err != nil {
			err = h.failed("stat", name, err)
		}
	}
	return st, err
}

// Open opens a regular file for reading. Anything else is ErrNotRegular.
func (h *Held) Open(name string) (*os.File, error) {
	if err := single(name); err != nil {
		return nil, err
	}
	at, err := retry(func() (int, error) {
		return unix.Openat(h.fd(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, h.failed("open", name, err)
	}
	defer func() { _ = unix.Close(at) }()
	return openRegular(at, path.Join(h.f.Name(), name))
}

// Create creates a file for writing; one of the name must not exist.
func (h *Held) Create(name string, mode uint32) (*os.File, error) {
	if err := single(name); err != nil {
		return nil, err
	}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Openat(h.fd(), name, flags, mode) })
	if err != nil {
		return nil, h.failed("create", name, err)
	}
	return os.NewFile(uintptr(fd), path.Join(h.f.Name(), name)), nil
}

// Rename renames an entry. If there is one of the new name, it fails with fs.ErrExist.
func (h *Held) Rename(from, to string) error {
	if err := single(from); err != nil {
		return err
	}
	if err := single(to); err != nil {
		return err
	}
	_, err := retry(func() (int, error) {
		return 0, unix.Renameat2(h.fd(), from, h.fd(), to, unix.RENAME_NOREPLACE)
	})
	if err != nil {
		return h.failed("rename", from, err)
	}
	return nil
}

// Remove removes an entry that is no directory.
func (h *Held) Remove(name string) error {
	if err := single(name); err != nil {
		return err
	}
	if err := unlink(h.fd(), name, 0); err != nil {
		return h.failed("remove", name, err)
	}
	return nil
}

// SetModified sets when an entry was modified, of a link itself.
func (h *Held) SetModified(name string, at time.Time) error {
	if err := single(name); err != nil {
		return err
	}
	stamp := unix.NsecToTimespec(at.UnixNano())
	times := []unix.Timespec{stamp, stamp}
	if err := unix.UtimesNanoAt(h.fd(), name, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return h.failed("set the time of", name, err)
	}
	return nil
}

// ListStamp returns a time that changes when entries are added, renamed or removed, as fine as the file system's clock.
func (h *Held) ListStamp() (time.Time, error) {
	st, err := h.Self()
	return time.Unix(st.Mtim.Unix()), err
}

// Again opens the directory a second time.
func (h *Held) Again() (*Held, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(h.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, h.failed("open", "", err)
	}
	return &Held{os.NewFile(uintptr(fd), h.Name())}, nil
}

// Self describes the directory itself.
func (h *Held) Self() (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(h.fd(), &st); err != nil {
		return st, h.failed("stat", "", err)
	}
	return st, nil
}
