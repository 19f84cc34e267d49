package subpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

// File is a file or a directory on a file system of the node.
type File struct {
	Device, Inode uint64
}

// FileOf returns which file info is about. ok is false where info does not come from the kernel.
func FileOf(info fs.FileInfo) (f File, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return File{}, false
	}
	return File{Device: st.Dev, Inode: st.Ino}, true
}

// Shown returns what the mounts of a volume's paths show, for every container of the pod: the files that Prepare has
// bound. A container may have been created with such a mount and not be started yet. The runtime binds it again then,
// and the kernel binds no file that has lost its name (ENOENT), although the mount holds it. So who removes earlier
// contents of the volume leaves these.
func Shown(podDir, volume string) (map[File]bool, error) {
	shown := map[File]bool{}
	pod, err := os.OpenRoot(podDir)
	if err != nil {
		return nil, fmt.Errorf("open the pod's directory: %w", err)
	}
	defer pod.Close()
	all := filepath.Join(mountsDir, volume)
	for container, err := range bounded.EntriesIn(pod, all) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil {
			err = addShown(shown, pod, filepath.Join(all, container.Name()))
		}
		if err != nil {
			return nil, fmt.Errorf("list the mounts of subPaths of volume %s: %w", volume, err)
		}
	}
	return shown, nil
}

// addShown adds what the mounts of one container show.
func addShown(shown map[File]bool, pod *os.Root, container string) error {
	dir, err := pod.Open(container)
	if err != nil {
		return err
	}
	defer dir.Close()
	for e, err := range bounded.EntriesIn(pod, container) {
		if err != nil {
			return err
		}
		is, st, err := point{dir: dir, name: e.Name()}.mounted()
		if err != nil {
			return err
		}
		if is && st.Mask&unix.STATX_INO != 0 {
			shown[File{Device: unix.Mkdev(st.Dev_major, st.Dev_minor), Inode: st.Ino}] = true
		}
	}
	return nil
}
