package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/own"
)

// maxChecked bounds the files of a directory whose owners are checked: the file source reads no more.
const maxChecked = 4096

// exposure is how others than root and the agent's user can change a file.
type exposure struct {
	path string
	// who can: "everybody", "group 100" or "user 1000".
	who string
	// anyone means that every user of the machine can.
	anyone bool
}

// exposureOf returns how others than root, the user and the group can change what st describes; nil if they cannot.
// Below a sticky directory, each user can change their own files only.
func exposureOf(path string, st *unix.Stat_t, user, group int, stickyIsSafe bool) *exposure {
	safe := stickyIsSafe && st.Mode&unix.S_ISVTX != 0
	switch {
	case st.Mode&0o002 != 0 && !safe:
		return &exposure{path, "everybody", true}
	case st.Uid != 0 && int(st.Uid) != user:
		return &exposure{path, fmt.Sprintf("user %d", st.Uid), false}
	case st.Mode&0o020 != 0 && !safe && st.Gid != 0 && int(st.Gid) != group:
		return &exposure{path, fmt.Sprintf("group %d", st.Gid), false}
	}
	return nil
}

// CheckRoot refuses an existing root directory that others can change, because its keys would be theirs, its journal
// and its manifests too. It checks the directory, what the agent keeps secret in it, and whether others can replace it.
func CheckRoot(dir string) error {
	target, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check root directory %s: %w", dir, err)
	}
	user, group := os.Geteuid(), os.Getegid()
	paths := []string{filepath.Dir(target), target, filepath.Join(target, own.Bus, "credentials")}
	for _, name := range own.SecretDirs() {
		paths = append(paths, filepath.Join(target, name))
	}
	for _, path := range paths {
		var st unix.Stat_t
		err := unix.Lstat(path, &st)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("check root directory %s: %w", dir, &fs.PathError{Op: "stat", Path: path, Err: err})
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK && path != filepath.Join(target, own.Bus) {
			continue // the operator keeps it elsewhere, and only who can change the root directory can change the link
		}
		found := exposureOf(path, &st, user, group, path == filepath.Dir(target))
		if found != nil && (path != filepath.Dir(target) || found.anyone) {
			return fmt.Errorf("cannot use root directory %s: %s can change %s, and with it the agent's keys and journal; "+
				"choose a directory of your own with --root-dir", dir, found.who, found.path)
		}
	}
	return nil
}

// exposed returns the first exposure of a path, of the directories above it, and of the files in it; nil if nothing is
// exposed.
func (m *machine) exposed(p string) (*exposure, error) {
	target, err := filepath.EvalSymlinks(m.path(p))
	if err != nil {
		return nil, err
	}
	for at := target; ; at = filepath.Dir(at) {
		if found, err := m.exposedFile(at, at != target); found != nil || err != nil {
			return found, err
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if st, err := os.Stat(target); err != nil || !st.IsDir() {
		return nil, err
	}
	checked := 0
	for e, err := range bounded.Entries(target) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		if checked++; checked > maxChecked {
			return nil, nil
		}
		found, err := m.exposedFile(filepath.Join(target, e.Name()), false)
		if found != nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
	}
	return nil, nil
}

// exposedFile is exposureOf what a path leads to.
func (m *machine) exposedFile(path string, above bool) (*exposure, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return exposureOf(path, &st, m.owner, m.group, above), nil
}
