package pressure

import (
	"cmp"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Candidate is a pod that could be evicted.
type Candidate struct {
	UID      string
	Priority int32
	// MemoryRequest and StorageRequest are the requests of memory and ephemeral storage, in bytes.
	MemoryRequest, StorageRequest int64
	// Usage is nil for a pod that was not measured: it uses nothing.
	Usage *journaletv1.PodUsage
}

// Rank sorts candidates for eviction in the kubelet's order: pods above their request first, then the lowest priority,
// then the most above the request; among equal pods the UID decides. For processes only priority and number count. Two
// things differ: a pod that was not measured counts as using nothing, and does not come first; used inodes are not
// reduced by a request of bytes, since pods do not request inodes.
func Rank(all []Candidate, signal Signal, layout journaletv1.FilesystemLayout) {
	exceeds := func(c *Candidate) int {
		if used, request := c.usage(signal, layout); used > request && signal != PIDAvailable {
			return 0
		}
		return 1
	}
	excess := func(c *Candidate) int64 {
		used, request := c.usage(signal, layout)
		return used - request
	}
	slices.SortFunc(all, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(exceeds(&a), exceeds(&b)), cmp.Compare(a.Priority, b.Priority),
			cmp.Compare(excess(&b), excess(&a)), cmp.Compare(a.UID, b.UID))
	})
}

// usage returns what a pod uses of what a signal is about, and its request of it.
func (c *Candidate) usage(signal Signal, layout journaletv1.FilesystemLayout) (used, request int64) {
	u := c.Usage
	switch signal.Resource() {
	case inodes:
		local, layers := counts(signal, layout)
		return choose(local, u.GetLocalInodes()) + choose(layers, u.GetLayerInodes()), 0
	case pids:
		return u.GetProcesses(), 0
	}
	if signal == MemoryAvailable || signal == AllocatableMemoryAvailable {
		return u.GetMemoryBytes(), c.MemoryRequest
	}
	local, layers := counts(signal, layout)
	return choose(local, u.GetLocalBytes()) + choose(layers, u.GetLayerBytes()), c.StorageRequest
}

func choose(counts bool, n int64) int64 {
	if counts {
		return n
	}
	return 0
}

// counts returns what of a pod counts for a signal of a file system: logs and local volumes, writable layers (kubelet:
// buildSignalToRankFunc).
func counts(signal Signal, layout journaletv1.FilesystemLayout) (local, layers bool) {
	switch layout {
	case journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_OWN_IMAGES:
		onNode := signal == NodeFsAvailable || signal == NodeFsInodesFree
		return onNode, !onNode
	case journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT:
		onImages := signal == ImageFsAvailable || signal == ImageFsInodesFree
		return !onImages, !onImages
	default:
		return true, true
	}
}
