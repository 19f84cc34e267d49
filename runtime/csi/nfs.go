package csi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/nfs"
	"github.com/journalet/journalet/runtime/pod/storage"
)

// nfsDriver stands for a CSI driver in the record of an NFS PersistentVolume, which has none. It can be no driver's
// name.
const nfsDriver = "kubernetes.io~nfs"

// ofExport completes the source of an NFS PersistentVolume.
func (s *source) ofExport(pv *corev1.PersistentVolume) (*source, error) {
	if s.block {
		return nil, fmt.Errorf("PersistentVolume %s is of nfs with volumeMode Block; an export has no block device", pv.Name)
	}
	s.key, s.nfs = key{nfsDriver, pv.Name}, ptr.To(nfs.OfPersistentVolume(pv, s.readOnly))
	return s, nil
}

// lockOf returns what the lock of a pod's volume is of. Each pod has an export mounted for itself: a server that is
// away has no pod wait for another one.
func lockOf(uid string, k key) key {
	if k.driver == nfsDriver {
		return key{k.driver, uid + "/" + k.handle}
	}
	return k
}

// mountNFS mounts an export for the pod. Its owner and mode stay: they are the server's. kubelet: the same.
func (s *setUp) mountNFS(ctx context.Context, dir string, r *record) error {
	target := filepath.Join(dir, podMount)
	mounted, err := isMount(target) // after a crash between the mount and its record
	if err != nil {
		return err
	}
	if !mounted {
		if err := createTarget(target, false); err != nil {
			return err
		}
		at, err := os.OpenFile(target, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return fmt.Errorf("open the directory of a volume: %w", err)
		}
		defer at.Close()
		if err := s.opts.NFS.Mount(ctx, at, target, *s.src.nfs); err != nil {
			return err
		}
	}
	r.Mounted = "true"
	return nil
}

// measureNFS measures the file system of an export: nothing is walked. kubelet: the same, without a bound.
func (v *Volumes) measureNFS(ctx context.Context, target string) (m storage.Measured, err error) {
	m.FS, err = bounded.Within(ctx, &v.answers, target, statsTimeout, func() (storage.FileSystem, error) {
		return storage.FileSystemAt(target)
	})
	m.Bytes, m.Inodes = int64(m.FS.Used), int64(m.FS.Inodes-min(m.FS.Inodes, m.FS.InodesFree))
	return m, err
}
