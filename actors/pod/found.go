package pod

import (
	"slices"

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

// takeShown takes CPU and memory as the runtime reports them out of an observation: the state keeps them in
// ContainerRecord.reported, and only until the pod is admitted.
func takeShown(o *journaletv1.PodObserved) (*journaletv1.PodObserved, map[string]*journaletv1.Resources) {
	var shown map[string]*journaletv1.Resources
	for i, c := range o.GetContainers() {
		if c.GetResources() == nil {
			continue
		}
		if shown == nil {
			shown = map[string]*journaletv1.Resources{}
			o = &journaletv1.PodObserved{
				Uid: o.GetUid(), ObservedAt: o.GetObservedAt(), PodNamespace: o.GetPodNamespace(), PodName: o.GetPodName(),
				Sandboxes: o.GetSandboxes(), Containers: slices.Clone(o.GetContainers()),
			}
		}
		shown[c.GetId()] = c.GetResources()
		o.Containers[i] = proto.CloneOf(c)
		o.Containers[i].Resources = nil
	}
	return o, shown
}

// ours tells whether a record tells of the start of an instance, or of its making.
func (a *Actor) ours(c *journaletv1.ContainerObservation) bool {
	r := a.record(c.GetName())
	return a.state.Calls[c.GetIntentId()] != nil || r.GetCreated().GetContainerId() == c.GetId() ||
		r.GetCurrent().GetId() == c.GetId() && !notStarted(r.GetCurrent())
}

// evolveFound notes what the runtime shows of an instance that runs and that no record tells the start of; nil: nothing.
func (a *Actor) evolveFound(c *journaletv1.ContainerObservation, shown *journaletv1.Resources) {
	r := a.record(c.GetName())
	if shown == nil || !running(r.GetCurrent()) || r.GetCurrent().GetId() != c.GetId() {
		return
	}
	r.Applied, r.Reported = nil, shown
	if a.state.GetStage() == runningPod {
		a.compareFound(r)
	}
}

// evolveFoundAll compares all that was found before the pod was admitted.
func (a *Actor) evolveFoundAll() {
	for c := range a.all() {
		if r := a.record(c.Name); running(r.GetCurrent()) && r.GetReported() != nil && r.GetApplied() == nil {
			a.compareFound(r)
		}
	}
}

// compareFound holds what the runtime shows of a container against what is allocated to it. What is as it should be leaves nothing.
func (a *Actor) compareFound(r *journaletv1.ContainerRecord) {
	c := a.spec(r.GetName())
	if c == nil {
		return
	}
	if r.Applied = a.found(c, r.GetReported()); r.Applied == nil {
		r.Reported = nil
	}
}

// found is what a container has, nil if that is what is allocated to it. A memory request shows nowhere and changes nothing of
// what runs: it is taken to be the allocated one.
func (a *Actor) found(c *corev1.Container, shown *journaletv1.Resources) *journaletv1.Resources {
	want := resources.Of(&c.Resources)
	will, has := a.inherits(want), proto.CloneOf(want)
	shares := func(millis int64) int64 { return min(max(millis, leastCPURequestMillis), mostCPURequestMillis) }
	quota := will.GetCpuLimitMillis()
	if quota > 0 {
		quota = max(quota, leastCPULimitMillis)
	}
	// One that asks for no CPU was made with shares by its limit.
	byLimit := want.GetCpuRequestMillis() == 0 && shown.GetCpuRequestMillis() == shares(will.GetCpuLimitMillis())
	if shown.GetCpuRequestMillis() != shares(want.GetCpuRequestMillis()) && !byLimit {
		has.CpuRequestMillis = shown.GetCpuRequestMillis()
	}
	if shown.GetCpuLimitMillis() != quota {
		has.CpuLimitMillis = shown.GetCpuLimitMillis()
	}
	if shown.GetMemoryLimitBytes() != will.GetMemoryLimitBytes() {
		has.MemoryLimitBytes = shown.GetMemoryLimitBytes()
	}
	if resources.Equal(has, want) {
		return nil
	}
	return has
}
