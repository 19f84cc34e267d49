package pressure

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Signal is what is measured, by the kubelet's name.
type Signal string

// The signals.
const (
	MemoryAvailable            Signal = "memory.available"
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFsAvailable            Signal = "nodefs.available"
	NodeFsInodesFree           Signal = "nodefs.inodesFree"
	ImageFsAvailable           Signal = "imagefs.available"
	ImageFsInodesFree          Signal = "imagefs.inodesFree"
	ContainerFsAvailable       Signal = "containerfs.available"
	ContainerFsInodesFree      Signal = "containerfs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

// Signals are all signals in the order that the node acts on them: memory first, as in the kubelet.
var Signals = []Signal{
	MemoryAvailable, AllocatableMemoryAvailable, NodeFsAvailable, NodeFsInodesFree, ImageFsAvailable, ImageFsInodesFree,
	ContainerFsAvailable, ContainerFsInodesFree, PIDAvailable,
}

// Resources that are not the API's.
const (
	inodes corev1.ResourceName = "inodes"
	pids   corev1.ResourceName = "pids"
)

// Valid reports whether there is such a signal.
func (s Signal) Valid() bool { return slices.Contains(Signals, s) }

// Resource returns what is short below a threshold: memory, ephemeral-storage, inodes or pids.
func (s Signal) Resource() corev1.ResourceName {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable:
		return corev1.ResourceMemory
	case NodeFsInodesFree, ImageFsInodesFree, ContainerFsInodesFree:
		return inodes
	case PIDAvailable:
		return pids
	default:
		return corev1.ResourceEphemeralStorage
	}
}

// Bytes reports whether the signal is measured in bytes, and not in numbers.
func (s Signal) Bytes() bool { r := s.Resource(); return r != inodes && r != pids }

// Condition returns the condition of a node below a threshold.
func (s Signal) Condition() corev1.NodeConditionType {
	switch s.Resource() {
	case corev1.ResourceMemory:
		return corev1.NodeMemoryPressure
	case pids:
		return corev1.NodePIDPressure
	default:
		return corev1.NodeDiskPressure
	}
}

// Reclaim returns what is removed before a pod is evicted: dead containers, unused images (kubelet:
// buildSignalToNodeReclaimFuncs).
func (s Signal) Reclaim(layout journaletv1.FilesystemLayout) (containers, images bool) {
	if s.Condition() != corev1.NodeDiskPressure {
		return false, false
	}
	onImages := s == ImageFsAvailable || s == ImageFsInodesFree
	switch layout {
	case journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_OWN_IMAGES:
		all := s != NodeFsAvailable && s != NodeFsInodesFree
		return all, all
	case journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT:
		return !onImages, onImages
	default:
		return true, true
	}
}
