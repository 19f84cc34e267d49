package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
)

// At reports whether something is mounted at a path. Its last part may be no link: where the agent mounts something, it
// has created that.
func At(path string) (bool, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // the table has real paths
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	found, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(filepath.Join(dir, filepath.Base(path))))
	if err != nil {
		return false, fmt.Errorf("read the mount table: %w", err)
	}
	return len(found) > 0, nil
}
