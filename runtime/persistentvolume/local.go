package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/journalet/journalet/runtime/pod/hostpath"
	"github.com/journalet/journalet/runtime/pod/mounts"
	"github.com/journalet/journalet/runtime/pod/storage"
)

// localDriver stands for a CSI driver in the record of a local volume, which has none. It can be no driver's name.
const localDriver = "kubernetes.io~local-volume"

// checkAffinity refuses a PersistentVolume that is not for this node. The scheduler has chosen the node by it; a pod
// that names its node itself has been checked by nobody. kubelet: the same.
func (v *Volumes) checkAffinity(pv *corev1.PersistentVolume) error {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	selector, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	if err != nil {
		return fmt.Errorf("PersistentVolume %s: %w", pv.Name, err)
	}
	var n *corev1.Node
	if v.opts.Node != nil {
		n = v.opts.Node.Node()
	}
	switch {
	case n == nil:
		return fmt.Errorf("PersistentVolume %s is for some nodes, and the labels of this Node are not known yet", pv.Name)
	case !selector.Match(n):
		return fmt.Errorf("PersistentVolume %s is not for node %s: no matching NodeSelectorTerms; bind the pod to a node "+
			"that its nodeAffinity names", pv.Name, v.opts.NodeName)
	}
	return nil
}

// setUpOnNode sets up a volume that needs no driver.
func (s *setUp) setUpOnNode(ctx context.Context) error {
	uid := string(s.pod.UID)
	release, err := s.locks.lock(ctx, lockOf(uid, s.src.key))
	if err != nil {
		return err
	}
	defer release()
	if err := s.checkInUse(); err != nil {
		return err
	}
	dir := s.claimDir(uid, s.src.dir)
	r, done, err := s.claim(uid, dir)
	if err != nil || done {
		return err
	}
	switch {
	case s.src.hostPath != nil:
		err = s.useHostPath(r)
	case s.src.nfs != nil:
		err = s.mountNFS(ctx, dir, r)
	default:
		err = s.bind(ctx, uid, dir, r)
	}
	if err != nil {
		return err
	}
	r.Stage = published
	return s.save(uid, dir, r)
}

// bind mounts a local volume for the pod: a directory of the node, its block device, or the file system on that.
func (s *setUp) bind(ctx context.Context, uid, dir string, r *record) error {
	target, from := filepath.Join(dir, podMount), s.src.local
	onDisk, err := s.checkLocal()
	if err != nil {
		return err
	}
	if onDisk {
		if from, err = s.mountDisk(ctx); err != nil {
			return err
		}
	}
	if err := createTarget(target, s.src.block); err != nil {
		return err
	}
	mounted, err := mounts.At(target) // after a crash between the mount and its record
	if err != nil {
		return err
	}
	if !mounted {
		if err := unix.Mount(from, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", from, err)
		}
	}
	// Another pod has the volume with its group already. kubelet: the same.
	if !s.claims(s.src.key, uid, s.src.dir) {
		if err := s.own(ctx, target); err != nil {
			return fmt.Errorf("applying fsGroup: %w", err)
		}
	}
	r.Mounted = "true"
	if !onDisk {
		return nil
	}
	return s.growDisk(ctx, r)
}

// checkLocal returns an error unless the path of a local volume has what the volume is. onDisk reports that it is the
// file system on a block device.
func (s *setUp) checkLocal() (onDisk bool, err error) {
	info, err := os.Stat(s.src.local)
	if err != nil {
		return false, fmt.Errorf("the path of local volume %s: %w", s.src.dir, err)
	}
	isDevice := hostpath.IsBlockDevice(info.Mode())
	switch {
	case s.src.block && !isDevice:
		return false, fmt.Errorf("the path %s of local volume %s is no block device", s.src.local, s.src.dir)
	case !s.src.block && !isDevice && !info.IsDir():
		return false, fmt.Errorf("the path %s of local volume %s is neither a directory nor a block device", s.src.local,
			s.src.dir)
	}
	return !s.src.block && isDevice, nil
}

// createTarget creates what a volume is mounted at.
func createTarget(target string, block bool) error {
	if !block {
		if err := os.MkdirAll(target, dirMode); err != nil {
			return fmt.Errorf("create the directory of a volume: %w", err)
		}
		return nil
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("create the file of a block device: %w", err)
	}
	return f.Close()
}

// opens returns the function that creates and opens the directory at which mount(8) mounts a volume.
func opens(target string) func() (*os.File, error) {
	return func() (*os.File, error) {
		if err := createTarget(target, false); err != nil {
			return nil, err
		}
		return os.OpenFile(target, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	}
}

// unbind unmounts a local volume of a pod.
func (v *Volumes) unbind(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // not mounted, or not there
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return v.removeTarget(target)
}

// measureLocal measures the file system of a local volume: nothing is walked. kubelet: the same.
func measureLocal(target string, r *record) (m storage.Measured, err error) {
	if r.Block == "true" {
		return m, storage.ErrNotMeasured
	}
	m.FS, err = storage.FileSystemAt(target)
	m.Bytes, m.Inodes = int64(m.FS.Used), int64(m.FS.Inodes-min(m.FS.Inodes, m.FS.InodesFree))
	return m, err
}
