package bounded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// window is how many directories of a tree are open at once. What lies deeper is first moved up. Trees that people
	// make are flatter, so for them nothing is moved.
	window = 32
	// removeBatch is how many names of each open directory are in memory at once.
	removeBatch = 64
	// maxRounds bounds how often one directory is read again because its content changed.
	maxRounds = 1 << 20
)

// errMounted means that a tree holds a mount point.
var errMounted = errors.New("a mount point; unmount it: nothing is removed through a mount")

// RemoveTree removes name, a single path element, and everything below it from root. It is not an error if name does
// not exist, nor if it is too long to exist. RemoveTree follows no link and enters no mount: at a mount it fails after
// having removed the rest. However deep and wide the tree is, it has at most window descriptors open and needs constant
// memory. After an error, or when ctx ends, a part is left, and a further call continues.
//
// A directory deeper than window is moved up into a directory near the top, in place of keeping the way to it open. So
// no step depends on the parent of a directory, which a process that shares the tree could have changed.
func RemoveTree(ctx context.Context, root *os.Root, name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("remove %q: not the name of a file", name)
	}
	at, err := root.OpenFile(".", os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer at.Close()
	r := &remover{ctx: ctx, top: root.Name()}
	r.open[0] = at
	for last := -1; last != r.done; {
		last, r.failed = r.done, nil
		r.remove(0, name)
		if err := ctx.Err(); err != nil {
			return &fs.PathError{Op: "remove", Path: path.Join(root.Name(), name), Err: err}
		}
		if r.failed == nil {
			return nil
		}
	}
	return r.failed
}

// remover removes one tree.
type remover struct {
	ctx    context.Context
	top    string
	open   [window + 1]*os.File // the open directories; the first holds the tree
	names  [window + 1]string   // the names of the open directories
	done   int                  // entries that were removed or moved up
	failed error                // the first entry that stays in this round, nil if none
}

// keep notes that the entry name of the directory open[depth] stays.
func (r *remover) keep(depth int, name, op string, err error) {
	if r.failed == nil {
		at := path.Join(r.top, path.Join(r.names[1:depth+1]...), name)
		r.failed = &fs.PathError{Op: op, Path: at, Err: err}
	}
}

// remove removes the entry name of the directory open[depth].
func (r *remover) remove(depth int, name string) {
	dir := int(r.open[depth].Fd())
	err := unlink(dir, name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unlink(dir, name, unix.AT_REMOVEDIR)
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENAMETOOLONG):
		r.done++
		return
	case errors.Is(err, unix.EBUSY):
		r.keep(depth, name, "remove", errMounted)
		return
	case !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST):
		r.keep(depth, name, "remove", err)
		return
	}
	if depth == window {
		r.moveUp(name)
		return
	}
	fd, err := openDir(dir, name)
	if err != nil {
		r.keep(depth, name, "open", err)
		return
	}
	r.open[depth+1], r.names[depth+1] = os.NewFile(uintptr(fd), name), name
	r.empty(depth + 1)
	_ = r.open[depth+1].Close() // it was only read
	r.open[depth+1] = nil
	if err := unlink(dir, name, unix.AT_REMOVEDIR); err == nil {
		r.done++
	} else if !errors.Is(err, unix.ENOENT) && r.ctx.Err() == nil {
		r.keep(depth, name, "remove", err)
	}
}

// empty removes the entries of the directory open[depth], until a round removes none.
func (r *remover) empty(depth int) {
	for range maxRounds {
		began := r.done
		for {
			names, err := r.open[depth].Readdirnames(removeBatch)
			for _, name := range names {
				if r.ctx.Err() != nil {
					return
				}
				r.remove(depth, name)
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					r.keep(depth, "", "list", err)
					return
				}
				break
			}
		}
		if r.done == began {
			return
		}
		if _, err := r.open[depth].Seek(0, io.SeekStart); err != nil {
			r.keep(depth, "", "list", err)
			return
		}
	}
}

// moveUp moves the directory name out of the deepest open directory into the tree's top directory. If that has no room
// for a name on a full disk, the next ones below take it.
func (r *remover) moveUp(name string) {
	var err error
	for depth := 1; depth <= window/2; depth++ {
		to := ".removed-" + strconv.FormatUint(rand.Uint64(), 36)
		err = unix.Renameat(int(r.open[window].Fd()), name, int(r.open[depth].Fd()), to)
		if err == nil {
			r.done++
			return
		}
		if errors.Is(err, unix.EBUSY) {
			err = errMounted
			break
		}
	}
	r.keep(window, name, "move up", err)
}

func unlink(dir int, name string, flags int) error {
	_, err := retry(func() (int, error) { return 0, unix.Unlinkat(dir, name, flags) })
	return err
}

// openDir opens the directory name of the directory dir, unless it is a link or the root of another mount.
func openDir(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) {
		return unix.Openat2(dir, name, &unix.OpenHow{
			Flags: flags, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
		})
	})
	switch {
	case errors.Is(err, unix.EXDEV):
		return fd, errMounted
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return openOnDevice(dir, name, flags) // a kernel before 5.6, or a filter of system calls
	}
	return fd, err
}

// openOnDevice is openDir without openat2: it finds mounts of other file systems only.
func openOnDevice(dir int, name string, flags int) (int, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
	if err != nil {
		return -1, err
	}
	var outer, inner unix.Stat_t
	err = errors.Join(unix.Fstat(dir, &outer), unix.Fstat(fd, &inner))
	if err == nil && outer.Dev != inner.Dev {
		err = errMounted
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
