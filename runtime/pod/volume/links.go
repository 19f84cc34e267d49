package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

// What containers open are links below ..data. Where something is mounted in the volume there is no link: the mount
// would be on a file of the present contents, and go with them. A directory above such a place is a directory, with
// links for the files that the volume has beside it.

// maxPointBytes bounds what is copied to a mount point: more than an object has.
const maxPointBytes = 4 << 20

// links returns the links of the volume with where they lead.
func (w *writer) links() map[string]string {
	parents := parentsOf(w.points)
	out := make(map[string]string, len(w.files))
	for path := range w.files {
		at := ""
		for element := range strings.SplitSeq(path, "/") {
			at = filepath.Join(at, element)
			if slices.Contains(w.points, at) {
				break
			}
			if !slices.Contains(parents, at) {
				out[at] = targetOf(at)
				break
			}
		}
	}
	return out
}

// targetOf returns where the link at a path leads.
func targetOf(at string) string {
	return strings.Repeat("../", strings.Count(at, "/")) + filepath.Join(dataLink, at)
}

// link creates the links that containers open. A directory in the place of one stays, unless it is empty: it was
// created for a subPath before the file came.
func (w *writer) link() error {
	for at, target := range w.links() {
		info, err := w.root.Lstat(at)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if to, err := w.root.Readlink(at); err == nil && to == target {
				continue
			}
		}
		if err == nil {
			if err = w.root.Remove(at); err != nil && info.IsDir() {
				continue
			}
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = w.root.Symlink(target, at)
		}
		if err != nil {
			return fmt.Errorf("link to a file of the volume: %w", err)
		}
	}
	for _, at := range w.points {
		if err := fillPoint(w.root, at); err != nil {
			return err
		}
	}
	return nil
}

// staleLinks returns the links to files that are no more, in all directories that have links.
func (w *writer) staleLinks() ([]string, error) {
	links := w.links()
	var stale []string
	for _, dir := range append([]string{"."}, parentsOf(w.points)...) {
		for e, err := range bounded.EntriesIn(w.root, dir) {
			if err != nil {
				return nil, fmt.Errorf("list the volume: %w", err)
			}
			at := filepath.Join(dir, e.Name())
			if e.Type()&fs.ModeSymlink == 0 || links[at] != "" || at == dataLink {
				continue
			}
			if to, err := w.root.Readlink(at); err == nil && to == targetOf(at) {
				stale = append(stale, at)
			}
			if len(stale) == maxStale {
				return stale, nil
			}
		}
	}
	return stale, nil
}

// fillPoint copies a file of the contents to the mount point that has its place, for the containers that mount nothing
// there. It is written in place: another file would not be where others have mounted something.
func fillPoint(volume *os.Root, at string) error {
	from := filepath.Join(dataLink, at)
	info, err := volume.Stat(from)
	if err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // the contents have no such file
	}
	data, err := bounded.ReadFileIn(volume, from, maxPointBytes)
	if err != nil {
		return fmt.Errorf("read what a mount point hides: %w", err)
	}
	flags := 0
	switch now, err := volume.Lstat(at); {
	case errors.Is(err, fs.ErrNotExist):
		flags = os.O_CREATE | os.O_EXCL
	case err != nil || !now.Mode().IsRegular():
		return nil //nolint:nilerr // a directory, for something that is one
	}
	if old, err := bounded.ReadFileIn(volume, at, int64(len(data))); err == nil && string(old) == string(data) {
		return nil
	}
	f, err := volume.OpenFile(at, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return fmt.Errorf("write what a mount point hides: %w", err)
	}
	if now, e := f.Stat(); e != nil || !now.Mode().IsRegular() {
		err = errors.Join(e, bounded.ErrNotRegular)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); err == nil && ok {
		err = f.Chown(int(st.Uid), int(st.Gid))
	}
	if err == nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write what a mount point hides: %w", err)
	}
	return nil
}
