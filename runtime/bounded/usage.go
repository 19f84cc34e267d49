package bounded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// direntBytes is how much of a directory is read at once: some hundred names.
	direntBytes = 8 << 10
	// direntHeader is the size of an entry, as getdents64 returns it, before its name: inode, offset, length and type.
	direntHeader = 19
	// blockBytes is the unit of stat's block count.
	blockBytes = 512
)

// Usage is what a tree takes on its file system: bytes of allocated blocks, and inodes.
type Usage struct {
	FileBytes, DirBytes int64
	Inodes              int64
}

// Bytes returns the sum.
func (u Usage) Bytes() int64 { return u.FileBytes + u.DirBytes }

// Pace is called while a tree is measured, with the time that was spent since its last call. It returns when the
// measuring may continue.
type Pace func(ctx context.Context, spent time.Duration) error

// DiskUsage returns what name below root, a file or a directory with all below it, takes on its file system; nothing if
// there is none. It follows no link and enters no mount. However deep and wide the tree is, it has at most window+3
// descriptors open, and memory for each level, not for each entry. A file with several links counts once if all of them
// are in the tree.
//
// It ends early when it has found more than atMost bytes, unless that is 0. An error comes with what was found: a lower
// bound. A process that moves directories deeper than window while they are measured can hide them.
func DiskUsage(ctx context.Context, root *os.Root, name string, atMost int64, pace Pace) (Usage, error) {
	w := &measurer{ctx: ctx, atMost: atMost, pace: pace, since: time.Now()}
	at, err := root.OpenFile(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Usage{}, nil
	}
	if err != nil {
		return Usage{}, err
	}
	defer at.Close()
	defer w.closeAll()
	w.measure(int(at.Fd()), path.Base(name))
	w.used.Inodes += int64(math.Round(w.linked))
	if err := w.err; err != nil {
		return w.used, fmt.Errorf("measure %s: %w", path.Join(root.Name(), name), err)
	}
	return w.used, ctx.Err()
}

// measurer measures one tree.
type measurer struct {
	ctx    context.Context
	atMost int64
	pace   Pace
	since  time.Time // when pace last returned

	dev    uint64
	levels []level
	used   Usage
	linked float64 // inodes of files with several links: the part of each that its links in the tree are
	err    error   // the first one
}

// level is a directory on the way down. The first window ones stay open, and of the others the deepest one.
type level struct {
	ino  uint64
	fd   int    // -1: closed
	rest []byte // what is read and not yet measured
	next int64  // where the directory continues after the last entry that was measured
}

func (w *measurer) note(err error) {
	if w.err == nil && !errors.Is(err, unix.ENOENT) {
		w.err = err
	}
}

func (w *measurer) full() bool { return w.atMost > 0 && w.used.Bytes() > w.atMost }

func (w *measurer) measure(dir int, name string) {
	var st unix.Stat_t
	if err := lstatAt(dir, name, &st); err != nil {
		w.note(err)
		return
	}
	w.dev = st.Dev
	w.entry(dir, name)
	for len(w.levels) > 0 && !w.full() && w.ctx.Err() == nil {
		top := &w.levels[len(w.levels)-1]
		if len(top.rest) == 0 && !w.refill(top) {
			w.up()
			continue
		}
		name := top.take()
		if name != "." && name != ".." {
			w.entry(top.fd, name)
		}
	}
}

// entry measures one entry, and goes down if it is a directory.
func (w *measurer) entry(dir int, name string) {
	var st unix.Stat_t
	if err := lstatAt(dir, name, &st); err != nil {
		w.note(err)
		return
	}
	if st.Dev != w.dev {
		return
	}
	bytes := st.Blocks * blockBytes
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		w.used.FileBytes += bytes / int64(max(1, st.Nlink))
		if st.Nlink > 1 {
			w.linked += 1 / float64(st.Nlink)
		} else {
			w.used.Inodes++
		}
		return
	}
	fd, err := openDir(dir, name)
	if errors.Is(err, errMounted) {
		return
	}
	w.used.DirBytes += bytes
	w.used.Inodes++
	if err != nil {
		w.note(err)
		return
	}
	if n := len(w.levels); n > window {
		_ = unix.Close(w.levels[n-1].fd)
		w.levels[n-1].fd, w.levels[n-1].rest = -1, nil
	}
	w.levels = append(w.levels, level{ino: st.Ino, fd: fd})
}

// refill reads more of a directory. It returns false at its end.
func (w *measurer) refill(l *level) bool {
	now := time.Now()
	if err := w.pace(w.ctx, now.Sub(w.since)); err != nil {
		w.note(err)
		return false
	}
	w.since = time.Now()
	buf := make([]byte, direntBytes)
	n, err := retry(func() (int, error) { return unix.Getdents(l.fd, buf) })
	if err != nil {
		w.note(err)
	}
	l.rest = buf[:max(0, n)]
	return n > 0
}

// take takes one entry off what was read.
func (l *level) take() string {
	length := int(binary.NativeEndian.Uint16(l.rest[16:]))
	l.next = int64(binary.NativeEndian.Uint64(l.rest[8:]))
	name, _, _ := strings.Cut(string(l.rest[direntHeader:length]), "\x00")
	l.rest = l.rest[length:]
	return name
}

// up leaves a directory. Its parent is opened again where needed; if it has another one by now, the next one that is
// still open takes its place.
func (w *measurer) up() {
	n := len(w.levels) - 1
	child := w.levels[n].fd
	defer func() { _ = unix.Close(child) }()
	w.levels = w.levels[:n]
	if n == 0 || w.levels[n-1].fd >= 0 {
		return
	}
	parent := &w.levels[n-1]
	if err := w.reopen(parent, child); err != nil {
		w.note(err)
		w.levels = w.levels[:min(n, window)]
	}
}

func (w *measurer) reopen(parent *level, child int) error {
	fd, err := retry(func() (int, error) {
		return unix.Openat(child, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (st.Dev != w.dev || st.Ino != parent.ino) {
		err = errors.New("a directory was moved meanwhile")
	}
	if err == nil {
		_, err = unix.Seek(fd, parent.next, unix.SEEK_SET)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	parent.fd = fd
	return nil
}

func (w *measurer) closeAll() {
	for _, l := range w.levels {
		if l.fd >= 0 {
			_ = unix.Close(l.fd)
		}
	}
}

func lstatAt(dir int, name string, st *unix.Stat_t) error {
	_, err := retry(func() (int, error) { return 0, unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW) })
	return err
}
