package persistentvolume

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// errInUse refuses a volume that another pod has. The words are the kubelet's.
var errInUse = errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")

// oncePod reports whether a PersistentVolume is for one pod at a time. One with further access modes is not: which of
// them a pod means, nobody can know. kubelet: the same.
func oncePod(pv *corev1.PersistentVolume) bool {
	return slices.Equal(pv.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod})
}

// checkInUse returns an error while another pod on this node has a volume that is for one pod at a time. The scheduler
// knows of it, too; a pod that names its node itself has been checked by nobody. The claims on disk count, also those
// of another boot, until their pods are torn down. The caller has the volume's lock.
//
// A pod that has the volume already keeps it: two of them may have got it from a version that did not check, and
// neither would start after a reboot.
func (s *setUp) checkInUse() error {
	if !s.src.once {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uses(s.pods[string(s.pod.UID)]) {
		return nil
	}
	for _, dirs := range s.pods {
		if s.uses(dirs) {
			return errInUse
		}
	}
	return nil
}

// uses reports whether a pod with these claims has the volume, or may have it.
func (s *setUp) uses(dirs map[string]*record) bool {
	for _, r := range dirs {
		// A claimed one: its driver has said that it did nothing, or was not called. A local volume may be mounted.
		if r.key() == s.src.key && (r.Stage != claimed || r.Driver == localDriver) {
			return true
		}
	}
	return false
}
