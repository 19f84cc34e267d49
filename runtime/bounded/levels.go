package bounded

import (
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// direntBytes is how much of a directory is read at once: some hundred names.
	direntBytes = 8 << 10
	// direntHeader is the size of an entry, as getdents64 returns it, before its name: inode, offset, length and type.
	direntHeader = 19
)

// levels are the directories on the way down a tree, however deep and wide it is: the first window ones stay open, and
// of the others the deepest one.
type levels []level

// level is one of them.
type level struct {
	dev, ino uint64
	fd       int    // -1: closed
	rest     []byte // what is read and not yet taken
	next     int64  // where the directory continues after the last entry that was taken
}

// enter goes down to a directory, whose descriptor is closed when it is left.
func (l *levels) enter(fd int, st *unix.Stat_t) {
	if n := len(*l); n > window {
		_ = unix.Close((*l)[n-1].fd)
		(*l)[n-1].fd, (*l)[n-1].rest = -1, nil
	}
	*l = append(*l, level{dev: st.Dev, ino: st.Ino, fd: fd})
}

// leave goes up and opens the parent again if needed. If the directory has another parent by now, leave returns an
// error and goes up to the next directory that is still open.
func (l *levels) leave() error {
	n := len(*l) - 1
	child := (*l)[n].fd
	defer func() { _ = unix.Close(child) }()
	*l = (*l)[:n]
	if n == 0 || (*l)[n-1].fd >= 0 {
		return nil
	}
	err := (*l)[n-1].reopen(child)
	if err != nil {
		*l = (*l)[:min(n, window)]
	}
	return err
}

// reopen opens the directory that a child is in, if it is this one.
func (l *level) reopen(child int) error {
	fd, err := retry(func() (int, error) {
		return unix.Openat(child, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (st.Dev != l.dev || st.Ino != l.ino) {
		err = errors.New("a directory was moved meanwhile")
	}
	if err == nil {
		_, err = unix.Seek(fd, l.next, unix.SEEK_SET)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	l.fd = fd
	return nil
}

// fill reads more of a directory. It returns false at its end.
func (l *level) fill() (bool, error) {
	buf := make([]byte, direntBytes)
	n, err := retry(func() (int, error) { return unix.Getdents(l.fd, buf) })
	l.rest = buf[:max(0, n)]
	return n > 0, err
}

// take takes one entry off what was read.
func (l *level) take() string {
	length := int(binary.NativeEndian.Uint16(l.rest[16:]))
	l.next = int64(binary.NativeEndian.Uint64(l.rest[8:]))
	name, _, _ := strings.Cut(string(l.rest[direntHeader:length]), "\x00")
	l.rest = l.rest[length:]
	return name
}

func (l levels) close() {
	for _, at := range l {
		if at.fd >= 0 {
			_ = unix.Close(at.fd)
		}
	}
}
