package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/pod/disk"
)

// diskDir returns where the file system of a local volume on a block device is mounted for all pods, at the kubelet's
// path. What is mounted there is in the mount table, and nothing else records it.
func (v *Volumes) diskDir(k key) string {
	return filepath.Join(v.opts.RootDir, own.LocalDisks, k.handle)
}

// disk returns the disk of a local volume.
func (s *setUp) disk() disk.Source {
	return disk.Source{Device: s.src.local, Type: s.src.fsType, Options: s.src.mountOptions, ReadOnly: s.src.readOnly}
}

// mountDisk mounts the file system on the block device of a local volume, once for all pods, and returns where. The
// volume's lock is held.
//
// It is read-only if the first pod only reads, as with the kubelet. A pod that writes then waits until the others are
// gone, and does not start with a volume that it cannot write to.
func (s *setUp) mountDisk(ctx context.Context) (string, error) {
	target := s.diskDir(s.src.key)
	open := opens(target)
	err := s.opts.Disks.Mount(ctx, target, open, s.disk())
	if !errors.Is(err, disk.ErrReadOnly) {
		return target, err
	}
	if s.claims(s.src.key, string(s.pod.UID), s.src.dir) {
		return "", fmt.Errorf("%w: delete the other pods that have local volume %s, or have this one only read", err,
			s.src.dir)
	}
	if err := s.opts.Disks.Unmount(ctx, target); err != nil {
		return "", err
	}
	return target, s.opts.Disks.Mount(ctx, target, open, s.disk())
}

// growDisk has the file system of a local volume fill its disk, if its PersistentVolume has become larger. That happens
// when a pod's volume is set up, and not while it is in use.
func (s *setUp) growDisk(ctx context.Context, r *record) error {
	s.can.expand = true
	err := s.expandAtSetUp(ctx, r)
	r.Expand = "" // nothing is repeated
	return err
}

// unmountDisk unmounts the file system of a local volume that no pod has. It does nothing if the volume has no file
// system on a disk.
func (v *Volumes) unmountDisk(ctx context.Context, k key) error {
	if err := checkName("volume", k.handle); err != nil {
		return err
	}
	target := v.diskDir(k)
	if _, err := v.opts.Files.Lstat(target); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	began := v.opts.Clock.Now()
	err := v.opts.Disks.Unmount(ctx, target)
	if err == nil {
		err = v.removeTarget(target)
	}
	v.observe(ctx, k.driver, opUnmountDevice, false, began, err)
	return err
}

// loadDisks notes the mounted disks that no pod claims: an earlier agent has left them, or a kubelet.
func (v *Volumes) loadDisks() error {
	for e, err := range v.opts.Files.Entries(filepath.Join(v.opts.RootDir, own.LocalDisks)) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if k := (key{localDriver, e.Name()}); checkName("volume", k.handle) == nil && !v.claims(k, "", "") {
			v.leave(k, false)
		}
	}
	return nil
}
