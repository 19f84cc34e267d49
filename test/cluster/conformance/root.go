package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/cluster"
)

// volumes is where upstream's manifest keeps the volumes of its driver.
const volumes = "/var/lib/csi-hostpath-data"

// rootDir returns the root directory of the node for a list of CSI drivers, and what removes what its specs leave. The
// paths of drivers' sockets have at most 107 bytes, so that the directory is a short one. A driver with volumes mounts
// them for the node: its directory is a shared mount.
func rootDir(list string) (root string, remove func() error, err error) {
	remove = func() error { return nil }
	if root, err = os.MkdirTemp("", "jl-"); err != nil {
		return "", remove, err
	}
	remove = func() error { return cluster.Remove(root) }
	if list != hostpath {
		return root, remove, nil
	}
	if err := share(root); err != nil {
		return root, remove, err
	}
	if _, err := os.Stat(volumes); !errors.Is(err, fs.ErrNotExist) {
		return root, remove, nil // somebody else's
	}
	return root, func() error { return errors.Join(cluster.Remove(root), os.RemoveAll(volumes)) }, nil
}

// share mounts a directory at itself, so that other namespaces see what is mounted there.
func share(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at itself: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts of %s: %w", dir, err)
	}
	return nil
}
