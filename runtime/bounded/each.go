package bounded

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Each calls visit for each file below root, directories and links too, with a descriptor of O_PATH of the file
// itself and what it is. It follows no link, also none that takes a directory's place meanwhile: what visit does by
// the descriptor it does to a file that was found in the tree. A directory is visited before what it holds, and root
// is not. Mounts are entered. However deep and wide the tree is, at most window+5 descriptors are open. What is gone
// when its turn comes is passed over. A directory deeper than window that is moved meanwhile is an error. Each
// returns the errors of visit, too.
func Each(ctx context.Context, root *os.Root, visit func(fd int, st *unix.Stat_t) error) error {
	top, err := root.OpenFile(".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer top.Close()
	v := &visitor{visit: visit}
	defer func() { v.levels.close() }()
	if err := v.enter(int(top.Fd())); err != nil {
		return fmt.Errorf("read %s: %w", root.Name(), err)
	}
	for len(v.levels) > 0 {
		at := &v.levels[len(v.levels)-1]
		if len(at.rest) == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			more, err := at.fill()
			if err != nil && !errors.Is(err, unix.ENOENT) { // a directory that was removed
				return fmt.Errorf("read a directory of %s: %w", root.Name(), err)
			}
			if !more {
				if err := v.levels.leave(); err != nil {
					return fmt.Errorf("go up in %s: %w", root.Name(), err)
				}
			}
			continue
		}
		if name := at.take(); name != "." && name != ".." {
			if err := v.entry(at.fd, name); err != nil {
				return fmt.Errorf("%q in %s: %w", name, root.Name(), err)
			}
		}
	}
	return ctx.Err()
}

// visitor visits one tree.
type visitor struct {
	visit  func(fd int, st *unix.Stat_t) error
	levels levels
}

// entry visits one entry, and goes down if it is a directory.
func (v *visitor) entry(dir int, name string) error {
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := v.visit(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	err = v.enter(fd)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// enter goes down to the directory that a descriptor of O_PATH names.
func (v *visitor) enter(path int) error {
	fd, err := retry(func() (int, error) {
		return unix.Openat(path, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return err
	}
	v.levels.enter(fd, &st)
	return nil
}
