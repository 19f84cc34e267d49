package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/fakecsi"
)

// autoClear has a loop device be free again when nobody has it open (linux/loop.h).
const autoClear = 4

// volume is a directory, or a file that a loop device shows.
type volume struct {
	path      string
	bytes     int64
	block     bool
	ephemeral bool            // it goes with its pod
	staged    string          // the path where it is staged
	published map[string]bool // the paths where it is published
	loop      *os.File
}

// create creates a volume, with what from contains unless that is nil.
func create(path string, bytes int64, block bool, from *volume) (*volume, error) {
	v := &volume{path: path, bytes: bytes, block: block, published: map[string]bool{}}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	if from != nil {
		if err := from.copyTo(path); err != nil {
			return nil, err
		}
	}
	if !block {
		return v, os.MkdirAll(path, 0o755) //nolint:gosec // for pods of any user
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return v, errors.Join(f.Truncate(bytes), f.Close())
}

func (v *volume) copyTo(path string) error {
	//nolint:gosec // paths of ours
	if out, err := exec.Command("/bin/busybox", "cp", "-a", v.path, path).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", v.path, err, out)
	}
	return nil
}

// remove removes the volume and what it contains.
func (v *volume) remove() error {
	return errors.Join(v.detach(), os.RemoveAll(v.path))
}

// resize changes the size; a directory has none.
func (v *volume) resize(bytes int64) error {
	v.bytes = max(v.bytes, bytes)
	if !v.block {
		return nil
	}
	if err := os.Truncate(v.path, v.bytes); err != nil || v.loop == nil {
		return err
	}
	return unix.IoctlSetInt(int(v.loop.Fd()), unix.LOOP_SET_CAPACITY, 0)
}

// attach has a loop device show the file of the volume, until detach or the end of this process.
func (v *volume) attach() error {
	if !v.block || v.loop != nil {
		return nil
	}
	f, err := os.OpenFile(v.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	v.loop, err = fakecsi.Loop(f, autoClear)
	return errors.Join(err, f.Close())
}

func (v *volume) detach() error {
	if v.loop == nil {
		return nil
	}
	err := v.loop.Close()
	v.loop = nil
	return err
}

// publish mounts the volume at a path.
func (v *volume) publish(to string, readOnly bool) error {
	if v.published[to] {
		return nil
	}
	from := v.path
	if v.block {
		if err := v.attach(); err != nil {
			return err
		}
		from = v.loop.Name()
		if err := os.WriteFile(to, nil, 0o600); err != nil {
			return err
		}
	} else if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from, to, err)
	}
	if readOnly {
		if err := unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return errors.Join(fmt.Errorf("remount %s read-only: %w", to, err), unix.Unmount(to, 0))
		}
	}
	v.published[to] = true
	return nil
}

// vacate unmounts a path and removes what is there: without propagation of mounts, pods write below them.
func vacate(path string) error {
	for {
		err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) {
			return os.RemoveAll(path)
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}

// used returns the bytes of all files of a directory.
func used(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a pod has removed it meanwhile
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}
