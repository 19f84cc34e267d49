package pod

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

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

// carryOut works out the manifest that is carried out: the wanted one with what is allocated.
func (a *Actor) carryOut() {
	a.manifest = resources.Allocated(a.wanted, a.allocated)
}

// allocate makes the CPU and memory of a manifest the pod's.
func (a *Actor) allocate(digest string, m *corev1.Pod) {
	s := a.state
	if m == nil || digest == s.GetPod().GetDigest() || resources.Same(m, a.wanted) {
		digest, m = "", nil
	}
	s.AllocatedDigest, a.allocated = digest, m
	a.carryOut()
}

// evolveWanted takes up another manifest of a pod. What was allocated before stays so until the node says otherwise.
func (a *Actor) evolveWanted(u *journaletv1.PodUpdated, m *corev1.Pod) {
	s := a.state
	digest, have := s.GetPod().GetDigest(), a.wanted
	if a.allocated != nil {
		digest, have = s.GetAllocatedDigest(), a.allocated
	}
	s.Pod, a.wanted = u.GetPod(), m
	a.allocate(digest, have)
}

// resizing is what is known of the pod's resize, made if need be. Only Evolve may call it.
func (a *Actor) resizing() *journaletv1.PodResize {
	if a.state.Resize == nil {
		a.state.Resize = new(journaletv1.PodResize)
	}
	return a.state.Resize
}

// tidyResize forgets a resize of which nothing is left to be known.
func (a *Actor) tidyResize() {
	if proto.Size(a.state.GetResize()) == 0 {
		a.state.Resize = nil
	}
}

// ofThisIncarnation reports whether a request for resources is of this incarnation, and not of one that ended before it was
// answered.
func (a *Actor) ofThisIncarnation(question uint64) bool { return question >= a.state.GetIncarnation() }

// evolveResized takes up the node's answer. What runs has from then on what it was given before, until it is given more.
func (a *Actor) evolveResized(e actors.Event, k *journaletv1.ResizeDecided) {
	if !a.ofThisIncarnation(k.GetRequestId()) {
		return
	}
	r := a.resizing()
	switch {
	case k.GetAllocated():
		before := a.manifest
		a.allocate(k.GetDigest(), e.Manifest)
		a.evolveActuated(before)
		a.state.Resize = &journaletv1.PodResize{InProgress: true}
		if asked := r.GetRequestedDigest(); asked != k.GetDigest() {
			a.state.Resize.RequestedDigest = asked
		}
	case k.GetDigest() == r.GetRequestedDigest():
		r.Deferred = k.GetMessage()
	}
	a.tidyResize()
}

// evolveResizeHeld takes up that others end for the resize, or that this pod ends for another one's.
func (a *Actor) evolveResizeHeld(e actors.Event, k *journaletv1.ResizePendingPreemption) {
	a.evolvePreempts(e, k.GetVictims(), k.GetUid(), k.GetFullName())
	if k.GetUid() == a.self.ID && k.GetDigest() == a.state.GetResize().GetRequestedDigest() && a.ofThisIncarnation(k.GetRequestId()) {
		a.resizing().Deferred = k.GetMessage()
	}
}

// evolveActuated notes what containers have that run, are made, or are being started, when other resources are allocated.
func (a *Actor) evolveActuated(before *corev1.Pod) {
	for c := range a.all() {
		was, r := findContainer(before, c.Name), a.state.Containers[c.Name]
		if r == nil || !alive(r.GetCurrent()) && !a.onItsWay(r) {
			continue
		}
		if r.Applied == nil {
			r.Applied = resources.Of(&was.Resources)
		}
		tidyActuated(c, r)
	}
}

// tidyActuated forgets what a container was given if that is what it is to have.
func tidyActuated(c *corev1.Container, r *journaletv1.ContainerRecord) {
	if c != nil && resources.Equal(r.GetApplied(), resources.Of(&c.Resources)) {
		r.Applied = nil
	}
}

// evolveUpdated folds the outcome of giving a container other resources. An instance that has ended or has a successor
// leaves nothing to be known.
func (a *Actor) evolveContainerUpdated(e actors.Event, w *journaletv1.UpdateContainer, f *journaletv1.CallFinished) {
	r := a.keep(w.GetContainer())
	size := a.resizing()
	defer a.tidyResize()
	switch f.GetError() {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		size.Failures, size.FailedAt = 0, nil
		if r.GetCurrent().GetId() == w.GetContainerId() {
			// Something else may have been allocated since.
			r.Applied, r.Reported = w.GetResources(), f.GetReported()
			tidyActuated(a.spec(w.GetContainer()), r)
		}
	case journaletv1.CallError_CALL_ERROR_WITHDRAWN:
	default:
		size.Failures++
		size.FailedAt = timestamppb.New(e.Time)
		if f.GetError() != journaletv1.CallError_CALL_ERROR_NOT_DONE {
			size.Error = f.GetMessage()
		}
	}
}
