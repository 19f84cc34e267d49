package containers

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// All yields the containers of a pod of every kind: init containers, main containers, then ephemeral containers, each
// kind in the order of the manifest; none for nil.
func All(p *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for c := range WithoutEphemeral(p) {
			if !yield(c) {
				return
			}
		}
		if p == nil {
			return
		}
		for i := range p.Spec.EphemeralContainers {
			if !yield((*corev1.Container)(&p.Spec.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

// WithoutEphemeral yields the init containers and the main containers of a pod, in the order of their starts; none for
// nil. These have resources, and decide on the pod's phase, readiness and QoS class.
func WithoutEphemeral(p *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		if p == nil {
			return
		}
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// Find returns the container of this name, of whatever kind, or nil.
func Find(p *corev1.Pod, name string) *corev1.Container {
	for c := range All(p) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Ephemeral returns the ephemeral container of this name, or nil.
func Ephemeral(p *corev1.Pod, name string) *corev1.EphemeralContainer {
	if p == nil {
		return nil
	}
	for i := range p.Spec.EphemeralContainers {
		if c := &p.Spec.EphemeralContainers[i]; c.Name == name {
			return c
		}
	}
	return nil
}

// HasDevice reports whether a container of the pod has a volume as a block device. The API permits no other to have the
// same one as files.
func HasDevice(p *corev1.Pod, volume string) bool {
	for c := range All(p) {
		if slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == volume }) {
			return true
		}
	}
	return false
}
