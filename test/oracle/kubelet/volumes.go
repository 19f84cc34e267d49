package kubelet

import (
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/volume"
	_ "k8s.io/kubernetes/pkg/volume/emptydir" // linked to below
)

//go:linkname calculateEmptyDirMemorySize k8s.io/kubernetes/pkg/volume/emptydir.calculateEmptyDirMemorySize
func calculateEmptyDirMemorySize(allocatable *resource.Quantity, spec *volume.Spec, pod *v1.Pod) *resource.Quantity

// MemoryVolumeSize returns the size of a memory volume in bytes on a node with this much allocatable memory.
func MemoryVolumeSize(pod *v1.Pod, v *v1.Volume, allocatable int64) int64 {
	memory := resource.NewQuantity(allocatable, resource.BinarySI)
	return calculateEmptyDirMemorySize(memory, volume.NewSpecFromVolume(v), pod).Value()
}
