package node

import (
	"time"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Layouts: one file system for all, one of images and writable layers beside the node's, and one of images alone.
const (
	OneFileSystem    = "one"
	OwnImages        = "own"
	SplitFileSystems = "split"
)

// Eviction is the configuration of a node's thresholds, by signal.
type Eviction struct {
	Layout                     string
	Hard, Soft, Grace, Reclaim map[string]string
	Transition                 time.Duration
	MaxPodGraceSeconds         int64
}

// Pressured is a node that runs short of something. Each side has one of its own.
type Pressured interface {
	Layout() string
	// Summary measures the node and its pods.
	Summary(at time.Time) *api.Summary
	// Active returns the pods that have not ended.
	Active() []*v1.Pod
	// ReclaimImages and ReclaimContainers remove unused images and dead containers. End ends a pod, with all it holds.
	ReclaimImages()
	ReclaimContainers()
	End(pod string)
}

// Evicted is a pod that was ended for the node.
type Evicted struct {
	Pod, Reason, Message string
	Grace                time.Duration
}
