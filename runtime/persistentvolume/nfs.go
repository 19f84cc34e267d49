package persistentvolume

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/pod/nfs"
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
	if err := s.opts.NFS.Mount(ctx, target, opens(target), *s.src.nfs); err != nil {
		return err
	}
	r.Mounted = "true"
	return nil
}
