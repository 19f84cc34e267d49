package pod

import (
	"cmp"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// setManifest computes the effective manifest: the desired one with the allocated CPU and memory.
func (a *Actor) setManifest() {
	a.manifest, a.derived = resources.Allocated(a.desired, a.allocated), derived{}
}

// allocate has the CPU and memory of a manifest be the allocated ones.
func (a *Actor) allocate(digest string, m *corev1.Pod) {
	s := a.state
	if m == nil || digest == s.GetPod().GetDigest() || resources.Same(m, a.desired) {
		digest, m = "", nil
	}
	s.AllocatedDigest, a.allocated = digest, m
	a.setManifest()
}

// evolveDesired folds an updated manifest. What is allocated stays so until the node decides.
func (a *Actor) evolveDesired(u *journaletv1.PodUpdated, m *corev1.Pod) {
	s := a.state
	digest, allocated := s.GetPod().GetDigest(), a.desired
	if a.allocated != nil {
		digest, allocated = s.GetAllocatedDigest(), a.allocated
	}
	s.Pod, a.desired = u.GetPod(), m
	a.allocate(digest, allocated)
}

// resizing returns the record of the pod's resize, which it creates if need be. Only Evolve may call it.
func (a *Actor) resizing() *journaletv1.PodResize {
	if a.state.Resize == nil {
		a.state.Resize = new(journaletv1.PodResize)
	}
	return a.state.Resize
}

// dropEmptyResize removes the record of a resize that records nothing.
func (a *Actor) dropEmptyResize() {
	if proto.Size(a.state.GetResize()) == 0 {
		a.state.Resize = nil
	}
}

// ofThisIncarnation reports whether this incarnation requested a resize, and not an incarnation that ended before the
// decision.
func (a *Actor) ofThisIncarnation(requestID uint64) bool {
	return requestID >= a.state.GetIncarnation()
}

// evolveResizeDecided folds the node's decision. What was allocated until now is what running containers were given.
func (a *Actor) evolveResizeDecided(e actors.Event, k *journaletv1.ResizeDecided) {
	if !a.ofThisIncarnation(k.GetRequestId()) {
		return
	}
	r := a.resizing()
	switch {
	case k.GetAllocated():
		before := a.manifest
		a.allocate(k.GetDigest(), e.Manifest)
		a.state.Resize = &journaletv1.PodResize{
			InProgress: true, Applied: r.GetApplied(), SandboxInDoubt: r.GetSandboxInDoubt(),
		}
		if requested := r.GetRequestedDigest(); requested != k.GetDigest() {
			a.state.Resize.RequestedDigest = requested
		}
		a.keepApplied(before)
	case k.GetDigest() == r.GetRequestedDigest():
		r.Deferred, r.Infeasible = k.GetMessage(), k.GetReason() == corev1.PodReasonInfeasible
	}
	a.dropEmptyResize()
}

// evolveResizePendingPreemption folds that a resize waits for its victims: this pod's own resize, or another pod's of
// which this pod is a victim.
func (a *Actor) evolveResizePendingPreemption(e actors.Event, k *journaletv1.ResizePendingPreemption) {
	a.evolveVictim(e, k.GetVictims(), k.GetUid(), k.GetFullName())
	if k.GetUid() == a.self.ID && k.GetDigest() == a.state.GetResize().GetRequestedDigest() &&
		a.ofThisIncarnation(k.GetRequestId()) {
		a.resizing().Deferred = k.GetMessage()
	}
}

// keepApplied records, when other resources are allocated, what the sandbox and containers have that run, or are being
// started.
func (a *Actor) keepApplied(before *corev1.Pod) {
	creating := func(r *journaletv1.CallRequested) bool { return r.GetRunSandbox() != nil }
	if a.state.GetSandboxId() != "" || a.calling(creating) {
		a.setPodApplied(cmp.Or(a.state.GetResize().GetApplied(), resources.OfPod(before)))
	}
	for c := range a.all() {
		was, r := containers.Find(before, c.Name), a.state.Containers[c.Name]
		if r == nil || !alive(r.GetCurrent()) && !a.beingStarted(r) {
			continue
		}
		if r.Applied == nil {
			r.Applied = resources.OfContainer(before, was)
		}
		a.setApplied(r, r.Applied)
	}
}

// evolvePodCreating folds that a sandbox is being created: with what is allocated.
func (a *Actor) evolvePodCreating() {
	if a.state.GetResize() != nil {
		a.state.Resize.Applied, a.state.Resize.SandboxInDoubt = nil, false
		a.dropEmptyResize()
	}
}

// evolveResourcesApplied folds the outcome of an UpdateContainer call. For an instance that has ended or was replaced
// nothing is recorded.
func (a *Actor) evolveResourcesApplied(e actors.Event, w *journaletv1.UpdateContainer, f *journaletv1.CallFinished) {
	r := a.ensureRecord(w.GetContainer())
	ok := f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	if ok && r.GetCurrent().GetId() == w.GetContainerId() {
		// Other resources may have been allocated since the call was requested.
		a.setApplied(r, w.GetResources())
		r.Reported = f.GetReported()
	}
	a.countResizeCall(e, w, f)
}

// evolvePodResourcesApplied folds the outcome of an UpdateSandbox call. For a sandbox that was replaced nothing is
// recorded.
func (a *Actor) evolvePodResourcesApplied(e actors.Event, w *journaletv1.UpdateSandbox, f *journaletv1.CallFinished) {
	ok := f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	if ok && a.state.GetSandboxId() == w.GetSandboxId() {
		a.setPodApplied(w.GetResources())
	}
	a.countResizeCall(e, w, f)
}

// sizingCall is a call that changes the resources of the pod as a whole to the resources in the manifests that it
// names.
type sizingCall interface {
	GetDigest() string
	GetAllocatedDigest() string
}

// countResizeCall counts the failures in a row of the calls that apply a resize, and keeps the newest error. A call
// that has failed may have changed the pod's cgroup and its sandbox before.
func (a *Actor) countResizeCall(e actors.Event, w sizingCall, f *journaletv1.CallFinished) {
	resize := a.resizing()
	switch ok := f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED; {
	case !ok:
		resize.SandboxInDoubt = true
	case w.GetDigest() == a.state.GetPod().GetDigest() && w.GetAllocatedDigest() == a.state.GetAllocatedDigest():
		resize.SandboxInDoubt = false
	}
	switch f.GetError() {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		resize.Failures, resize.FailedAt = 0, nil
	case journaletv1.CallError_CALL_ERROR_WITHDRAWN:
	default:
		resize.Failures++
		resize.FailedAt = timestamppb.New(e.Time)
		if f.GetError() != journaletv1.CallError_CALL_ERROR_NOT_DONE {
			resize.Error = f.GetMessage()
		}
	}
	a.dropEmptyResize()
}

// An agent that lost its journal finds containers without a record of their start, and their manifest may have changed
// since. The observation that finds such a container has its resources as the runtime reports them. Once the pod is
// admitted they are compared with the allocated ones, and a difference is applied as in a resize.

// hasStartRecord reports whether an instance is known from a call of this journal that created or started it.
func (a *Actor) hasStartRecord(c *journaletv1.ContainerObservation) bool {
	r := a.record(c.GetName())
	return a.state.Calls[c.GetIntentId()] != nil || r.GetCreated().GetContainerId() == c.GetId() ||
		r.GetCurrent().GetId() == c.GetId() && !isCreated(r.GetCurrent())
}

// evolveFound records what the runtime reports of a running instance without a record of its start; nil: nothing.
func (a *Actor) evolveFound(c *journaletv1.ContainerObservation, reported *journaletv1.Resources) {
	r := a.record(c.GetName())
	if reported == nil || !running(r.GetCurrent()) || r.GetCurrent().GetId() != c.GetId() {
		return
	}
	r.Applied, r.Reported = nil, reported
	if a.state.GetStage() == runningPod {
		a.inferApplied(r)
	}
}

// inferAllApplied compares, when the pod is admitted, what the runtime reported before with what is allocated.
func (a *Actor) inferAllApplied() {
	for c := range a.all() {
		if r := a.record(c.Name); running(r.GetCurrent()) && r.GetReported() != nil && r.GetApplied() == nil {
			a.inferApplied(r)
		}
	}
}

// inferApplied records what a container was given, judging by what the runtime reports. If that is what is allocated,
// nothing is recorded.
func (a *Actor) inferApplied(r *journaletv1.ContainerRecord) {
	c := a.spec(r.GetName())
	if c == nil {
		return
	}
	if a.setApplied(r, a.appliedBy(c, r.GetReported())); r.Applied == nil {
		r.Reported = nil
	}
}
