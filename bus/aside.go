package bus

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const (
	// asideDir holds what the end of a damaged journal looked like, for people.
	asideDir = "damaged"
	// maxAside bounds how many ends are kept; each is one block, 8 MiB at most or so.
	maxAside = 4
)

// setAside copies the journal's last block before the server opens it: recovery cuts a damaged end
// off for good, and what is cut may be all that tells what happened. It returns where the copy is, ""
// if there is nothing to copy. The caller removes it if nothing turns out to be damaged.
func setAside(dir, streamDir string, epoch uint64) (string, error) {
	b := blocks{dir: streamDir}
	last, err := b.newest()
	if errors.Is(err, fs.ErrNotExist) || err == nil && last == 0 {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("bus: look at the journal's files: %w", err)
	}
	to := filepath.Join(dir, asideDir)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return "", fmt.Errorf("bus: set the journal's end aside: %w", err)
	}
	path := filepath.Join(to, fmt.Sprintf("before-epoch-%020d-block-%d.blk", epoch, last))
	if err := copyFile(b.path(last), path); err != nil {
		return "", errors.Join(fmt.Errorf("bus: set the journal's end aside: %w", err), os.Remove(path))
	}
	return path, trimAside(to)
}

// dropAside removes a copy that nobody needs, and the folder if it was the only one.
func dropAside(path string) {
	if path != "" {
		_ = os.Remove(path)
		_ = os.Remove(filepath.Dir(path))
	}
}

// trimAside removes the oldest copies; their names sort by age.
func trimAside(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("bus: look at what was set aside: %w", err)
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, f.Name())
	}
	slices.Sort(names)
	for _, name := range names[:max(len(names)-maxAside, 0)] {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("bus: remove what was set aside: %w", err)
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
