package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// At reports whether something is mounted at a path. Its last part may be no link: where the agent mounts something, it
// has created that.
func At(path string) (bool, error) {
	m, err := Of(path)
	return m != nil, err
}

// Of returns the topmost mount at a path, as the mount table has it; nil: nothing is mounted there. Links: see At.
func Of(path string) (*mountinfo.Info, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // the table has real paths
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at := filepath.Join(dir, filepath.Base(path))
	found, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return m.Mountpoint != at, false })
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found[len(found)-1], nil
}

// IsReadOnly reports whether nothing can be written to a mount: it is mounted so, or its file system has become so.
func IsReadOnly(m *mountinfo.Info) bool {
	return slices.Contains(strings.Split(m.Options+","+m.VFSOptions, ","), "ro")
}
