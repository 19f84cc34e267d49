package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// PartSuffix is what the name of a file has more while it is written.
	PartSuffix = ".part"
	// fileMode is the mode of written files: many are secret, and none is for other users.
	fileMode = 0o600
)

// Write replaces the file at path, mode 0600, and syncs it and its directory. An error leaves the file as it was.
func Write(path string, data []byte) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	return WriteIn(root, filepath.Base(path), data)
}

// WriteIn is Write for a file of an open directory. The name is a single path element. One caller at a time writes a
// file.
func WriteIn(root *os.Root, name string, data []byte) error {
	part := name + PartSuffix
	// What an earlier crash has left, or a link that waits for a writer.
	if err := root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(part))
	}
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Stream writes a file with a mode of its own, so that it is there whole or not at all: write gets a new file beside
// it, which rename gives its name once it is synced. The directory is left to SyncDir.
func Stream(path string, mode fs.FileMode, rename func(from, to string) error, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+PartSuffix)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what failed is the error
	}
	return err
}

// SyncDir makes names of a directory, new and removed ones, survive a crash.
func SyncDir(path string) error {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
