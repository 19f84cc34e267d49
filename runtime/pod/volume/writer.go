package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/subpath"
)

// file is one file of a volume.
type file struct {
	data []byte
	mode fs.FileMode
	// user owns it; nil: root.
	user *int64
}

// payload is the files of a volume by their path in it.
type payload map[string]file

// Names and bounds of the kubelet's layout: the files are in a directory named after the time, ..data is a link to it,
// and what containers open are links below ..data.
const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
	stampFormat = "..2006_01_02_15_04_05."

	maxPathBytes = 4096
	maxNameBytes = 255
	dataDirMode  = fs.FileMode(0o755)
	// dataFilesMask and dataDirsMask are what a fsGroup may do with contents that nobody may change.
	dataFilesMask = fs.FileMode(0o440)
	dataDirsMask  = fs.ModeSetgid | 0o550
)

// writer replaces the files of a volume all at once. A container may have written the volume, if it is privileged: what
// it left is not followed, and what is not as the writer leaves it is written again.
type writer struct {
	ctx     context.Context
	root    *os.Root // the volume
	files   payload
	fsGroup *int64
	// points are where others are mounted in the volume, sorted.
	points []string
	// shown returns what mounts of subPaths show: it stays although it is of earlier contents. Nil: nothing.
	shown func() (map[subpath.File]bool, error)
}

// write brings the volume to the files. It writes nothing if it has them.
func (w *writer) write() error {
	files, err := cleanPayload(w.files)
	if err != nil {
		return err
	}
	w.files = files
	current := w.current()
	if current == "" || !w.same(current) {
		if current, err = w.create(); err != nil {
			return err
		}
		if err := w.publish(current); err != nil {
			return errors.Join(err, bounded.RemoveTree(w.ctx, w.root, current))
		}
	}
	if err := w.link(); err != nil {
		return err
	}
	return w.prune(current)
}

// cleanPayload returns the payload with clean paths.
func cleanPayload(files payload) (payload, error) {
	clean := make(payload, len(files))
	for path, f := range files {
		if err := checkPath(path); err != nil {
			return nil, err
		}
		clean[filepath.Clean(path)] = f
	}
	return clean, nil
}

func checkPath(path string) error {
	elements := strings.Split(path, "/")
	switch {
	case filepath.Clean(path) == "." || strings.Contains(path, "\x00"):
		return fmt.Errorf("invalid path: %q does not name a file", path)
	case filepath.IsAbs(path):
		return fmt.Errorf("invalid path: must be relative path: %s", path)
	case len(path) > maxPathBytes:
		return fmt.Errorf("invalid path: must be less than or equal to %d characters", maxPathBytes)
	case slices.Contains(elements, ".."):
		return fmt.Errorf("invalid path: must not contain '..': %s", path)
	case strings.HasPrefix(filepath.Clean(path), ".."):
		return fmt.Errorf("invalid path: must not start with '..': %s", path)
	case slices.ContainsFunc(elements, func(e string) bool { return len(e) > maxNameBytes }):
		return fmt.Errorf("invalid path: filenames must be less than or equal to %d characters", maxNameBytes)
	}
	return nil
}

// current returns the directory that ..data leads to; "" if ..data leads nowhere, or to no directory of the writer.
func (w *writer) current() string {
	name, err := w.root.Readlink(dataLink)
	if err != nil || !isStamp(name) {
		return ""
	}
	if info, err := w.root.Lstat(name); err != nil || !info.IsDir() {
		return ""
	}
	return name
}

// isStamp reports whether name can be the name of a directory of the writer.
func isStamp(name string) bool {
	return strings.HasPrefix(name, "..") && len(name) > len("..") && name != dataLink && name != newDataLink &&
		!strings.ContainsRune(name, '/')
}

// same reports whether a directory has these files and no others.
func (w *writer) same(dir string) bool {
	for path, f := range w.files {
		have, err := bounded.ReadFileIn(w.root, filepath.Join(dir, path), int64(len(f.data)))
		if err != nil || string(have) != string(f.data) {
			return false
		}
	}
	return w.onlyFiles(dir, "")
}

// onlyFiles reports whether all that is below dir/rel belongs to the files. It ends at the first that does not, so it
// reads no more than that.
func (w *writer) onlyFiles(dir, rel string) bool {
	for e, err := range bounded.EntriesIn(w.root, filepath.Join(dir, rel)) {
		if err != nil {
			return false
		}
		at := filepath.Join(rel, e.Name())
		if _, ok := w.files[at]; ok {
			continue
		}
		holds := func(path string) bool { return strings.HasPrefix(path, at+"/") }
		if !e.IsDir() || !slices.ContainsFunc(slices.Collect(maps.Keys(w.files)), holds) || !w.onlyFiles(dir, at) {
			return false
		}
	}
	return true
}

// create writes the files into a new directory and returns its name.
func (w *writer) create() (string, error) {
	dir := time.Now().UTC().Format(stampFormat) + fmt.Sprint(rand.Uint64())
	err := w.createDir(dir)
	for _, path := range slices.Sorted(maps.Keys(w.files)) {
		if err == nil {
			err = w.ctx.Err()
		}
		if err == nil {
			err = w.createFile(dir, path, w.files[path])
		}
	}
	if err != nil {
		return "", errors.Join(err, bounded.RemoveTree(context.WithoutCancel(w.ctx), w.root, dir))
	}
	return dir, nil
}

// createDir creates one directory, with its mode independent of the umask.
func (w *writer) createDir(path string) error {
	err := w.root.Mkdir(path, podDirMode)
	if err == nil {
		err = w.own(path, dataDirMode, dataDirsMask)
	}
	if err != nil {
		return fmt.Errorf("create a directory of the volume: %w", err)
	}
	return nil
}

// own sets the mode of a directory, and gives it to the fsGroup.
func (w *writer) own(path string, mode, forGroup fs.FileMode) error {
	if w.fsGroup != nil {
		mode |= forGroup
		if err := w.root.Lchown(path, -1, int(*w.fsGroup)); err != nil {
			return err
		}
	}
	return w.root.Chmod(path, mode)
}

func (w *writer) createFile(dir, path string, f file) error {
	at := dir
	elements := strings.Split(path, "/")
	for _, e := range elements[:len(elements)-1] {
		at = filepath.Join(at, e)
		if info, err := w.root.Lstat(at); err == nil && info.IsDir() {
			continue
		}
		if err := w.createDir(at); err != nil {
			return err
		}
	}
	out, err := w.root.OpenFile(filepath.Join(dir, path), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("create a file of the volume: %w", err)
	}
	_, err = out.Write(f.data)
	user, group, mode := -1, -1, f.mode.Perm()
	if f.user != nil {
		user = int(*f.user)
	}
	if w.fsGroup != nil {
		group, mode = int(*w.fsGroup), mode|dataFilesMask
	}
	if err == nil && (user >= 0 || group >= 0) {
		err = out.Chown(user, group)
	}
	if err == nil {
		err = out.Chmod(mode)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("write a file of the volume: %w", err)
	}
	return nil
}

// publish makes ..data lead to a directory.
func (w *writer) publish(dir string) error {
	if err := bounded.RemoveTree(w.ctx, w.root, newDataLink); err != nil {
		return fmt.Errorf("remove what a crash has left of a link: %w", err)
	}
	if info, err := w.root.Lstat(dataLink); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		if err := bounded.RemoveTree(w.ctx, w.root, dataLink); err != nil { // a container's: nothing can replace a directory
			return fmt.Errorf("remove what is in the place of a link: %w", err)
		}
	}
	err := w.root.Symlink(dir, newDataLink)
	if err == nil {
		err = w.root.Rename(newDataLink, dataLink)
	}
	if err != nil {
		return fmt.Errorf("link to the new contents of the volume: %w", err)
	}
	return nil
}

// prune removes links to files that are gone, and directories of earlier contents, also directories that a crash has
// left.
func (w *writer) prune(current string) error {
	links, err := w.staleLinks()
	if err != nil {
		return err
	}
	for _, at := range links {
		if err := w.root.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a link of the volume: %w", err)
		}
	}
	var stale []string
	for e, err := range bounded.EntriesIn(w.root, ".") {
		if err != nil {
			return fmt.Errorf("list the volume: %w", err)
		}
		if len(stale) >= maxStale {
			break // the next write removes more
		}
		if name := e.Name(); name == newDataLink || isStamp(name) && name != current {
			stale = append(stale, name)
		}
	}
	var shown map[subpath.File]bool
	if len(stale) > 0 && w.shown != nil {
		var err error
		if shown, err = w.shown(); err != nil {
			return fmt.Errorf("find which earlier contents of the volume are mounted: %w", err)
		}
	}
	for _, name := range stale {
		if err := w.removeUnless(shown, name); err != nil {
			return fmt.Errorf("remove earlier contents of the volume: %w", err)
		}
	}
	return nil
}

// removeUnless removes a path of the volume, but for what is shown in or below it.
func (w *writer) removeUnless(shown map[subpath.File]bool, path string) error {
	info, err := w.root.Lstat(path)
	if err == nil && len(shown) > 0 {
		if file, ok := subpath.FileOf(info); ok && shown[file] {
			return nil
		}
	}
	if err != nil || len(shown) == 0 || !info.IsDir() || len(path) > maxPathBytes {
		return removeTree(w.ctx, w.root, path)
	}
	for e, err := range bounded.EntriesIn(w.root, path) {
		if err == nil {
			err = w.ctx.Err()
		}
		if err == nil {
			err = w.removeUnless(shown, filepath.Join(path, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	if err := w.root.Remove(path); !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil // something in it is shown
}

// removeTree removes a path below a root with all that is below it.
func removeTree(ctx context.Context, root *os.Root, path string) error {
	parent, err := root.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	return bounded.RemoveTree(ctx, parent, filepath.Base(path))
}

// maxStale bounds what one write removes: more than a ConfigMap can have.
const maxStale = 1 << 16
