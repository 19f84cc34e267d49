package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// userOf returns the user of a container's newest instance, as long as the journal has it (KEP-3619); nil where the
// runtime reports none.
func userOf(cur *journaletv1.ContainerObservation) *corev1.ContainerUser {
	u := cur.GetUser()
	if u == nil {
		return nil
	}
	return &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{
		UID: u.GetUid(), GID: u.GetGid(), SupplementalGroups: u.GetSupplementalGroups(),
	}}
}

// mountStatuses returns the mounts of a container's volumes, in the order of its manifest (KEP-3857): also before it
// runs, and after it has ended.
func mountStatuses(c *corev1.Container, cur *journaletv1.ContainerObservation) []corev1.VolumeMountStatus {
	var all []corev1.VolumeMountStatus
	possible := recursiveIfPossible(c, cur)
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		st := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := corev1.RecursiveReadOnlyDisabled
			if wish := recursiveMode(m); wish == corev1.RecursiveReadOnlyEnabled ||
				wish == corev1.RecursiveReadOnlyIfPossible && possible {
				mode = corev1.RecursiveReadOnlyEnabled
			}
			st.RecursiveReadOnly = &mode
		}
		all = append(all, st)
	}
	return all
}

// recursiveIfPossible reports whether the mounts of mode IfPossible of a container are recursively read-only. By what
// the runtime's handler can, either all mounts that wish it are, or none: with one of mode Enabled the container does
// not start then. As long as no instance was observed the answer is no: a status promises no protection that is not
// there.
func recursiveIfPossible(c *corev1.Container, cur *journaletv1.ContainerObservation) bool {
	var wished uint32
	for i := range c.VolumeMounts {
		if m := recursiveMode(&c.VolumeMounts[i]); m != corev1.RecursiveReadOnlyDisabled {
			wished++
		}
	}
	return wished > 0 && cur.GetRecursiveReadOnlyMounts() >= wished
}

// recursiveMode returns the mode that a mount's manifest has, or the default of the API.
func recursiveMode(m *corev1.VolumeMount) corev1.RecursiveReadOnlyMode {
	if m.RecursiveReadOnly == nil || !m.ReadOnly {
		return corev1.RecursiveReadOnlyDisabled
	}
	return *m.RecursiveReadOnly
}
