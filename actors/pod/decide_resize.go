package pod

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

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

// startOf matches the start of a container.
func startOf(name string) func(*journaletv1.CallRequested) bool {
	return func(r *journaletv1.CallRequested) bool { return r.GetStartContainer().GetContainer() == name }
}

func updateCall(r *journaletv1.CallRequested) bool { return r.GetUpdateContainer() != nil }

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
