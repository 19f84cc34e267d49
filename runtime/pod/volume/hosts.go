package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	hostsFile = "etc-hosts"
	// newHostsFile becomes hostsFile when that cannot be written.
	newHostsFile = "etc-hosts.new"
	// maxReplacedHosts bounds the hosts files of a pod that others have replaced. Only containers that keep theirs from
	// being written need one each.
	maxReplacedHosts = 16
	hostsFileMode    = 0o644
)

// WriteHosts writes the pod's hosts file and returns its path. Containers mount the file and may write it, so its size
// and content are theirs: no more of it is read than content has. It is rewritten in place, as by the kubelet, so that
// running containers see the change. If it cannot be opened for writing at once, because a container executes it or
// holds a lease on it, another file takes its place for the containers that start from now on. The one before keeps a
// name beside it: what a container can write to has to be found by who measures it.
func (d *Driver) WriteHosts(uid string, content []byte) (string, error) {
	root, err := d.openPod(uid, true)
	if err != nil {
		return "", err
	}
	defer root.Close()
	// Containers of one pod start at the same time: what one has mounted, the next may not replace. Nothing here waits
	// for a container, so one lock does for all pods.
	d.hosts.Lock()
	defer d.hosts.Unlock()
	path := filepath.Join(d.PodDir(uid), hostsFile)
	if old, err := bounded.ReadFileIn(root, hostsFile, int64(len(content))); err == nil && bytes.Equal(old, content) {
		return path, nil
	}
	err = writeHosts(root, hostsFile, content, 0)
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		if err = writeHosts(root, newHostsFile, content, os.O_CREATE); err == nil {
			err = keepHosts(root)
		}
		if err == nil {
			err = root.Rename(newHostsFile, hostsFile)
		}
	}
	if err != nil {
		return "", fmt.Errorf("write the pod's hosts file: %w", err)
	}
	return path, nil
}

// keepHosts gives the hosts file, if there is one, a name of its own for when another file takes its place.
func keepHosts(root *os.Root) error {
	for i := range maxReplacedHosts {
		err := root.Link(hostsFile, hostsFile+"."+strconv.Itoa(i))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return fmt.Errorf("containers of the pod have kept %d hosts files from being written; find what executes "+
		"/etc/hosts or holds leases on it, and delete the pod", maxReplacedHosts)
}

// writeHosts writes a regular file. Not blocking, because a container may hold a lease on it.
func writeHosts(root *os.Root, name string, content []byte, flags int) error {
	f, err := root.OpenFile(name, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|flags, hostsFileMode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = bounded.ErrNotRegular
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil && info.Mode().Perm() != fs.FileMode(hostsFileMode) {
		// Independent of the umask, containers of other users must be able to read it.
		err = f.Chmod(hostsFileMode)
	}
	return errors.Join(err, f.Close())
}
