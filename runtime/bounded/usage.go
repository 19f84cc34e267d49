package bounded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// blockBytes is the unit of stat's block count.
const blockBytes = 512

// Usage is what a tree takes on its file system: bytes of allocated blocks, and inodes.
type Usage struct {
	FileBytes, DirBytes int64
	Inodes              int64
}

// Bytes returns the sum.
func (u Usage) Bytes() int64 { return u.FileBytes + u.DirBytes }

// Add adds what another tree takes.
func (u *Usage) Add(other Usage) {
	u.FileBytes += other.FileBytes
	u.DirBytes += other.DirBytes
	u.Inodes += other.Inodes
}

// Pace is called while a tree is measured, with the time that was spent since its last call. It returns when the
// measuring may continue.
type Pace func(ctx context.Context, spent time.Duration) error

// DiskUsage returns what name below root, a file or a directory with all below it, takes on its file system; nothing if
// name does not exist. It follows no link and enters no mount. However deep and wide the tree is, it has at most
// window+3 descriptors open, and memory for each level, not for each entry. A file with several links counts once if
// all of them are in the tree.
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
	defer w.levels.close()
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
	levels levels
	used   Usage
	linked float64 // inodes of files with several links: the part of each that its links in the tree are
	err    error   // the first one
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
	w.levels.enter(fd, &st)
}

// refill reads more of a directory. It returns false at its end.
func (w *measurer) refill(l *level) bool {
	now := time.Now()
	if err := w.pace(w.ctx, now.Sub(w.since)); err != nil {
		w.note(err)
		return false
	}
	w.since = time.Now()
	more, err := l.fill()
	if err != nil {
		w.note(err)
	}
	return more
}

// up leaves a directory.
func (w *measurer) up() {
	if err := w.levels.leave(); err != nil {
		w.note(err)
	}
}

func lstatAt(dir int, name string, st *unix.Stat_t) error {
	_, err := retry(func() (int, error) { return 0, unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW) })
	return err
}
