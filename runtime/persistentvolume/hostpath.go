package persistentvolume

import (
	"errors"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/pod/hostpath"
)

// hostPathDriver stands for a CSI driver in the record of a hostPath PersistentVolume. It can be no driver's name.
const hostPathDriver = "kubernetes.io~host-path"

// useHostPath has the pod use a path of the node. Nothing is mounted, and its owner stays, as with the kubelet.
func (s *setUp) useHostPath(r *record) error {
	if err := hostpath.SetUp(orCreate(s.src.hostPath)); err != nil {
		return err
	}
	r.HostPath = s.src.hostPath.Path
	r.HostPathType = string(ptr.Deref(s.src.hostPath.Type, corev1.HostPathUnset))
	return nil
}

// orCreate returns a source that has its directory created, if it has no type and does not exist: without it, the
// runtime would create it.
func orCreate(source *corev1.HostPathVolumeSource) *corev1.HostPathVolumeSource {
	if ptr.Deref(source.Type, corev1.HostPathUnset) != corev1.HostPathUnset {
		return source
	}
	if _, err := os.Lstat(source.Path); !errors.Is(err, fs.ErrNotExist) {
		return source
	}
	return &corev1.HostPathVolumeSource{Path: source.Path, Type: ptr.To(corev1.HostPathDirectoryOrCreate)}
}

// kindOf names the kind of a PersistentVolume that is not supported, and what to use instead.
func kindOf(pv *corev1.PersistentVolume) (kind, remedy string) {
	const mount = "mount the storage on the node, and have the PersistentVolume name its directory as a local one"
	switch s := &pv.Spec; {
	case s.ISCSI != nil:
		return "iscsi", "use a CSI driver for iSCSI, or " + mount
	case s.FC != nil:
		return "fc", "use a CSI driver for Fibre Channel, or " + mount
	case s.FlexVolume != nil:
		return "flexVolume", "use a CSI driver in place of the FlexVolume driver"
	}
	return "another kind", "use one of a CSI driver"
}
