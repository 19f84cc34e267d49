package pod

import (
	"cmp"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What a container has that no record tells the start of is learnt from the runtime: the journal that told it was lost, and the
// manifest may be another one by now. The runtime's word comes with the look that finds the container. It is kept as
// ContainerRecord.actual until the pod is admitted; what differs from what is allocated then is changed as in a resize.

// mostCPURequestMillis is the most that a cgroup's CPU shares stand for (kernel: 262144 shares, 1024 a CPU).
const mostCPURequestMillis = 256_000

// inherits are a container's resources with the pod's limits where it has none.
func (a *Actor) inherits(r *journaletv1.Resources) *journaletv1.Resources {
	if a.manifest.Spec.Resources == nil {
		return r
	}
	whole := resources.Of(a.manifest.Spec.Resources)
	r = proto.CloneOf(r)
	r.MemoryLimitBytes = cmp.Or(r.GetMemoryLimitBytes(), whole.GetMemoryLimitBytes())
	r.CpuLimitMillis = cmp.Or(r.GetCpuLimitMillis(), whole.GetCpuLimitMillis())
	return r
}

// steady tells whether a container runs and is neither started nor stopped.
func (a *Actor) steady(name string) bool {
	r := a.record(name)
	cur := r.GetCurrent()
	return running(cur) && !a.wasStopped(cur) && r.GetTermination().GetContainerId() != cur.GetId() && !a.calling(forContainer(name))
}

// restartsToResize tells whether a container that runs is to be started again to have its resources.
func (a *Actor) restartsToResize(c *corev1.Container) bool {
	from := a.record(c.Name).GetApplied()
	return from != nil && resources.Restarts(c, from, resources.Of(&c.Resources))
}

// onItsWay tells whether an instance of a container waits for its start, or is being made or started: it has what was allocated then.
func (a *Actor) onItsWay(r *journaletv1.ContainerRecord) bool {
	return a.made(r) != nil || a.calling(startOf(r.GetName()))
}

// unresized tells whether a container that runs, or is about to, does not have what is allocated to it.
func (a *Actor) unresized() bool {
	for c := range a.all() {
		r := a.record(c.Name)
		if r.GetApplied() != nil && (alive(r.GetCurrent()) || r.GetReplacing() || a.onItsWay(r)) {
			return true
		}
	}
	return false
}

// A cgroup has no less, and cannot tell less apart: at or below these the allocated value is shown
// (kubelet: cm.MinShares and cm.MinMilliCPULimit).
const (
	leastCPURequestMillis = 2
	leastCPULimitMillis   = 10
)
