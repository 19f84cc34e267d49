package pod

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The resources of a pod's containers are wanted (by its manifest), allocated (by the node) and actuated (sent to what
// runs). See ADR 014.

const (
	// reasonResize is the stop reason of a container whose resizePolicy has it started again with its new resources.
	reasonResize = "container resize requires restart"
	// resizeTimer ends the wait after a call that failed to give a container its resources.
	resizeTimer = "resize"
)

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

// startOf matches the start of a container.
func startOf(name string) func(*journaletv1.CallRequested) bool {
	return func(r *journaletv1.CallRequested) bool { return r.GetStartContainer().GetContainer() == name }
}

func updateCall(r *journaletv1.CallRequested) bool { return r.GetUpdateContainer() != nil }

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

// askResize asks the node for the desired resources, or withdraws the request.
func (d *step) askResize() error {
	asked, want := d.state.GetResize().GetRequestedDigest(), d.state.GetPod().GetDigest()
	switch {
	case d.state.GetAllocatedDigest() == "" && asked == "", d.state.GetAllocatedDigest() != "" && asked == want:
		return nil
	case d.state.GetAllocatedDigest() == "":
		return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_ResizeWithdrawn{
			ResizeWithdrawn: &journaletv1.ResizeWithdrawn{Uid: d.self.ID},
		}})
	}
	q := &journaletv1.ResizeRequested{
		Uid: d.self.ID, Digest: want, Demand: Demand(d.wanted), Priority: priority(d.wanted),
		Guaranteed: QOS(d.wanted) == corev1.PodQOSGuaranteed, RequestId: d.in.Seq,
	}
	q.Demand.HostPorts = nil
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_ResizeRequested{ResizeRequested: q}})
}

// change is one resource of one container that is to be changed in place.
type change struct {
	container *corev1.Container
	id        string
	to        *journaletv1.Resources
	// falls is the memory limit where it is a lower one, or the first.
	falls *journaletv1.MemoryLimit
}

// changes are the changes that are to be made in place, in their order: memory before CPU, what shrinks before what grows
// (kubelet: computePodResizeAction). A change is by the limit, and by the request only where the limit stays.
func (a *Actor) changes() []change {
	var all []change
	for _, memory := range []bool{true, false} {
		var list []change
		for _, c := range a.inResizeOrder() {
			r := a.record(c.Name)
			from, to := r.GetApplied(), resources.Of(&c.Resources)
			if from == nil || !a.steady(c.Name) || resources.Restarts(c, from, to) {
				continue
			}
			next := proto.CloneOf(from)
			was, will := a.inherits(from), a.inherits(to)
			var by int64
			if memory {
				by = cmp.Or(will.GetMemoryLimitBytes()-was.GetMemoryLimitBytes(), to.GetMemoryRequestBytes()-from.GetMemoryRequestBytes())
				next.MemoryLimitBytes, next.MemoryRequestBytes = to.GetMemoryLimitBytes(), to.GetMemoryRequestBytes()
			} else {
				by = cmp.Or(will.GetCpuLimitMillis()-was.GetCpuLimitMillis(), to.GetCpuRequestMillis()-from.GetCpuRequestMillis())
				next.CpuLimitMillis, next.CpuRequestMillis = to.GetCpuLimitMillis(), to.GetCpuRequestMillis()
			}
			one := change{container: c, id: r.GetCurrent().GetId(), to: next}
			if memory && limitFalls(from, to) {
				one.falls = &journaletv1.MemoryLimit{Container: c.Name, ContainerId: one.id, Bytes: to.GetMemoryLimitBytes()}
			}
			switch {
			case by > 0:
				list = append(list, one)
			case by < 0:
				list = slices.Insert(list, 0, one)
			}
		}
		all = append(all, list...)
	}
	return all
}

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

// limitFalls tells whether a container gets a lower memory limit, or its first one.
func limitFalls(from, to *journaletv1.Resources) bool {
	limit, before := to.GetMemoryLimitBytes(), from.GetMemoryLimitBytes()
	return limit != 0 && (before == 0 || limit < before)
}

// inResizeOrder are the containers in the order in which the kubelet looks at them: init containers from the last one on.
func (a *Actor) inResizeOrder() []*corev1.Container {
	var list []*corev1.Container
	for i := range a.initContainers() {
		list = slices.Insert(list, 0, &a.initContainers()[i])
	}
	for i := range a.containers() {
		list = append(list, &a.containers()[i])
	}
	return list
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

// actuate gives running containers what is allocated to them, one call after the other.
func (d *step) actuate() error {
	if d.calling(updateCall) {
		return nil
	}
	if !d.state.GetResize().GetInProgress() && d.unresized() {
		if err := d.emit(&journaletv1.Event{Kind: &journaletv1.Event_ResizeStarted{ResizeStarted: &journaletv1.ResizeStarted{Uid: d.self.ID}}}); err != nil {
			return err
		}
	}
	r := d.state.GetResize()
	if !r.GetInProgress() {
		return nil
	}
	if !d.unresized() {
		if err := d.clearTimer(resizeTimer); err != nil {
			return err
		}
		return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_ResizeCompleted{ResizeCompleted: &journaletv1.ResizeCompleted{Uid: d.self.ID}}})
	}
	list := d.changes()
	if len(list) == 0 {
		return nil
	}
	if wait := d.left(r.GetFailedAt(), startDelay(r.GetFailures(), d.maxBackOff())); wait > 0 {
		return d.timer(resizeTimer, wait)
	}
	if err := d.clearTimer(resizeTimer); err != nil {
		return err
	}
	w := &journaletv1.UpdateContainer{
		Container: list[0].container.Name, ContainerId: list[0].id, Resources: list[0].to,
		Digest: d.state.GetPod().GetDigest(), AllocatedDigest: d.state.GetAllocatedDigest(), SandboxId: d.state.GetSandboxId(),
	}
	for _, c := range list {
		if c.falls != nil {
			w.FallingLimits = append(w.FallingLimits, c.falls)
		}
	}
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_UpdateContainer{UpdateContainer: w}})
}

// resizeConditions are the conditions that tell of a resize, of a pod that has not ended.
func (a *Actor) resizeConditions() []*journaletv1.Condition {
	if a.state.GetStage() >= terminated {
		return nil
	}
	var all []*journaletv1.Condition
	add := func(t corev1.PodConditionType, reason, message string) {
		all = append(all, &journaletv1.Condition{Type: string(t), Status: true, Reason: reason, Message: message})
	}
	r := a.state.GetResize()
	if a.state.GetAllocatedDigest() != "" && r.GetDeferred() != "" {
		add(corev1.PodResizePending, corev1.PodReasonDeferred, r.GetDeferred())
	}
	if r.GetInProgress() {
		reason := ""
		if r.GetError() != "" {
			reason = corev1.PodReasonError
		}
		add(corev1.PodResizeInProgress, reason, r.GetError())
	}
	return all
}

// isResize tells whether a condition tells of a resize: it is there or not, and has a new time with each new reason.
func isResize(conditionType string) bool {
	return conditionType == string(corev1.PodResizePending) || conditionType == string(corev1.PodResizeInProgress)
}

// A cgroup has no less, and cannot tell less apart: at or below these the allocated value is shown
// (kubelet: cm.MinShares and cm.MinMilliCPULimit).
const (
	leastCPURequestMillis = 2
	leastCPULimitMillis   = 10
)

// actual is what a container has: what is allocated, and what the runtime showed where it was resized.
func (a *Actor) actual(c *corev1.Container, r *journaletv1.ContainerRecord) *corev1.ResourceRequirements {
	out := c.Resources.DeepCopy()
	if !running(r.GetCurrent()) {
		return out
	}
	a.inherit(out)
	has := proto.CloneOf(r.GetApplied())
	if has != nil {
		has.CpuRequestMillis = max(has.GetCpuRequestMillis(), leastCPURequestMillis)
	}
	if shown := r.GetReported(); shown != nil {
		has = proto.CloneOf(shown)
		has.MemoryRequestBytes = cmp.Or(shown.GetMemoryRequestBytes(), r.GetApplied().GetMemoryRequestBytes())
	}
	if has == nil {
		return out
	}
	is := resources.Requirements(has)
	put := func(list, from corev1.ResourceList, name corev1.ResourceName, least int64) {
		value, was := from[name], list[name]
		if list != nil && !value.IsZero() && (value.MilliValue() > least || was.MilliValue() > least) {
			list[name] = value
		}
	}
	put(out.Requests, is.Requests, corev1.ResourceCPU, leastCPURequestMillis)
	put(out.Requests, is.Requests, corev1.ResourceMemory, 0)
	put(out.Limits, is.Limits, corev1.ResourceCPU, leastCPULimitMillis)
	put(out.Limits, is.Limits, corev1.ResourceMemory, 0)
	return out
}

// inherit adds to what a running container has what it has from its pod as a whole, beside what it has of its own (kubelet: it shows what the runtime
// does of a list that is there). Without a CPU request a container has shares by its limit.
func (a *Actor) inherit(has *corev1.ResourceRequirements) {
	whole := a.manifest.Spec.Resources
	if whole == nil {
		return
	}
	put := func(list corev1.ResourceList, name corev1.ResourceName, least int64) {
		own, of := list[name], whole.Limits[name]
		if list != nil && own.IsZero() && of.MilliValue() > least {
			list[name] = of.DeepCopy()
		}
	}
	_, asks := has.Requests[corev1.ResourceCPU]
	if limit := has.Limits[corev1.ResourceCPU]; !asks && limit.IsZero() {
		put(has.Requests, corev1.ResourceCPU, leastCPURequestMillis)
	}
	put(has.Limits, corev1.ResourceCPU, leastCPULimitMillis)
	put(has.Limits, corev1.ResourceMemory, 0)
}
