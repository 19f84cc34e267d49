package simulation

import (
	"bytes"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// storageRoot is the agent's root directory, for volumes of CSI drivers.
const storageRoot = "/root"

// storageNode is what a node has of the volumes of CSI drivers: the drivers, the disk and the mount table. It
// implements persistentvolume.Files.
type storageNode struct {
	drivers []*volumeDriver
	files   fstest.MapFS
	mounts  map[string]*storageMount // by path
}

// storageMount is what a driver has mounted.
type storageMount struct {
	handle string
	// uid is the pod that it is published for; empty: it is staged.
	uid string
	// publishedAt is when it was published last, in uptime.
	publishedAt time.Duration
}

func newStorageNode() *storageNode {
	n := &storageNode{files: fstest.MapFS{}, mounts: map[string]*storageMount{}}
	for _, name := range []string{blockDriver, filesDriver} {
		d := &volumeDriver{name: name}
		d.start()
		n.drivers = append(n.drivers, d)
	}
	return n
}

// fix ends all faults of drivers.
func (n *storageNode) fix() {
	for _, d := range n.drivers {
		d.fix()
	}
}

// reboot ends all mounts. The files stay.
func (n *storageNode) reboot() { clear(n.mounts) }

// mount mounts something at a directory that has to be there.
func (n *storageNode) mount(path string, m *storageMount) error {
	if _, err := n.Stat(path); err != nil {
		return err
	}
	n.mounts[path] = m
	return nil
}

func (n *storageNode) unmount(path string) { delete(n.mounts, path) }

// mountsOf returns the paths at which a volume is staged, or published.
func (n *storageNode) mountsOf(handle string, staged bool) (all []string) {
	for _, path := range slices.Sorted(maps.Keys(n.mounts)) {
		if m := n.mounts[path]; m.handle == handle && (m.uid == "") == staged {
			all = append(all, path)
		}
	}
	return all
}

// mountedFor returns the paths at which volumes are published for a pod.
func (n *storageNode) mountedFor(uid string) (all []string) {
	for _, path := range slices.Sorted(maps.Keys(n.mounts)) {
		if n.mounts[path].uid == uid {
			all = append(all, path)
		}
	}
	return all
}

// isMounted reports whether a volume of a pod is published.
func (n *storageNode) isMounted(uid string, v *corev1.Volume) bool {
	return slices.ContainsFunc(n.mountedFor(uid), func(path string) bool { return n.published(path, uid, v) })
}

// has reports whether there is something of a pod on disk.
func (n *storageNode) has(uid string) bool { return n.uids()[uid] }

// uids returns the pods that have something on disk.
func (n *storageNode) uids() map[string]bool {
	all := map[string]bool{}
	for path := range n.files {
		if uid := uidIn("/" + path); uid != "" {
			all[uid] = true
		}
	}
	return all
}

func inFS(path string) string { return strings.TrimPrefix(path, "/") }

// Entries implements persistentvolume.Files, as do the methods below.
func (n *storageNode) Entries(dir string) iter.Seq2[fs.DirEntry, error] {
	return func(yield func(fs.DirEntry, error) bool) {
		all, err := n.files.ReadDir(inFS(dir))
		if err != nil {
			yield(nil, err)
			return
		}
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Read returns a file's contents.
func (n *storageNode) Read(path string, _ int64) ([]byte, error) { return n.files.ReadFile(inFS(path)) }

// Write replaces a file.
func (n *storageNode) Write(path string, b []byte) error {
	n.files[inFS(path)] = &fstest.MapFile{Data: bytes.Clone(b)}
	return nil
}

// MkdirAll creates a directory.
func (n *storageNode) MkdirAll(path string) error {
	n.files[inFS(path)] = &fstest.MapFile{Mode: fs.ModeDir | 0o750}
	return nil
}

// Remove removes a file or an empty directory, at which nothing is mounted.
func (n *storageNode) Remove(path string) error {
	if _, err := n.Lstat(path); err != nil {
		return err
	}
	for other := range n.files {
		if strings.HasPrefix(other, inFS(path)+"/") {
			return &fs.PathError{Op: "remove", Path: path, Err: syscall.ENOTEMPTY}
		}
	}
	if n.mounts[path] != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: syscall.EBUSY}
	}
	delete(n.files, inFS(path))
	return nil
}

func (n *storageNode) removeIfThere(path string) error {
	if err := n.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Lstat returns what is at a path.
func (n *storageNode) Lstat(path string) (fs.FileInfo, error) { return n.files.Stat(inFS(path)) }

// Stat returns what is at a path: there are no links.
func (n *storageNode) Stat(path string) (fs.FileInfo, error) { return n.files.Stat(inFS(path)) }

// Mounted reports whether something is mounted at a path.
func (n *storageNode) Mounted(path string) (bool, error) { return n.mounts[path] != nil, nil }
