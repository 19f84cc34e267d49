package pod

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// reasonResize is the stop reason of a container whose resizePolicy has it restarted with its new resources.
	reasonResize = "container resize requires restart"
	// resizeTimer ends the wait after a call of a resize that failed.
	resizeTimer = "resize"
)

// startOf matches the start of a container.
func startOf(name string) func(*journaletv1.CallRequested) bool {
	return func(r *journaletv1.CallRequested) bool { return r.GetStartContainer().GetContainer() == name }
}

func updateCall(r *journaletv1.CallRequested) bool {
	return r.GetUpdateContainer() != nil || r.GetUpdateSandbox() != nil
}

// requestResize requests the desired resources from the node, or withdraws the request.
func (d *step) requestResize() {
	requested, desired := d.state.GetResize().GetRequestedDigest(), d.state.GetPod().GetDigest()
	switch {
	case d.state.GetAllocatedDigest() == "" && requested == "",
		d.state.GetAllocatedDigest() != "" && requested == desired:
		return
	case d.state.GetAllocatedDigest() == "":
		d.decide(&journaletv1.ResizeWithdrawn{Uid: d.self.ID})
		return
	}
	q := &journaletv1.ResizeRequested{
		Uid: d.self.ID, Digest: desired, Demand: Demand(d.desired), Priority: priority(d.desired),
		Guaranteed: QOS(d.desired) == corev1.PodQOSGuaranteed, RequestId: d.in.Seq,
	}
	q.Demand.HostPorts = nil
	d.decide(q)
}

// change is a change in place of one container's CPU, or of its memory.
type change struct {
	container, id string
	to            *journaletv1.Resources
	// lowered is the new memory limit where it is lower than the applied one, or the first.
	lowered *journaletv1.MemoryLimit
}

// changes returns the changes in place that are outstanding, in their order: memory before CPU, decreases before
// increases (kubelet: computePodResizeAction). The limit decides which it is, and the request where the limit stays.
func (a *Actor) changes() []change {
	var all []change
	for _, memory := range []bool{true, false} {
		var list []change
		for _, c := range a.inResizeOrder() {
			has := a.resourcesOf(c)
			if !a.steady(c.Name) || resources.Restarts(c, has.applied, has.allocated) {
				continue
			}
			one := change{container: c.Name, id: a.record(c.Name).GetCurrent().GetId(), to: proto.CloneOf(has.applied)}
			to := has.allocated
			var by int64
			if memory {
				by = cmp.Or(to.GetMemoryLimitBytes()-has.applied.GetMemoryLimitBytes(),
					to.GetMemoryRequestBytes()-has.applied.GetMemoryRequestBytes())
				one.to.MemoryLimitBytes, one.to.MemoryRequestBytes = to.GetMemoryLimitBytes(), to.GetMemoryRequestBytes()
			} else {
				by = cmp.Or(to.GetCpuLimitMillis()-has.applied.GetCpuLimitMillis(),
					to.GetCpuRequestMillis()-has.applied.GetCpuRequestMillis())
				one.to.CpuLimitMillis, one.to.CpuRequestMillis = to.GetCpuLimitMillis(), to.GetCpuRequestMillis()
			}
			if memory && lowersLimit(has) {
				one.lowered = &journaletv1.MemoryLimit{Container: c.Name, ContainerId: one.id, Bytes: to.GetMemoryLimitBytes()}
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

// lowersLimit reports whether a container is to get a lower memory limit, or its first one.
func lowersLimit(has containerResources) bool {
	limit, before := has.allocated.GetMemoryLimitBytes(), has.applied.GetMemoryLimitBytes()
	return limit != 0 && (before == 0 || limit < before)
}

// inResizeOrder returns the containers in the order that the kubelet resizes them in: init containers backwards, then
// main containers.
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

// applyResources gives running containers, and then the pod as a whole, their allocated resources, one call after the
// other. A call for a container also widens the pod's cgroup before, and narrows it afterwards.
func (d *step) applyResources() {
	if d.calling(updateCall) {
		return
	}
	unapplied := d.unapplied()
	if !d.state.GetResize().GetInProgress() && unapplied {
		d.decide(&journaletv1.ResizeStarted{Uid: d.self.ID})
	}
	r := d.state.GetResize()
	if !r.GetInProgress() {
		return
	}
	list := d.changes()
	wait := d.left(r.GetFailedAt(), startDelay(r.GetFailures(), d.maxBackOff()))
	switch {
	case unapplied && len(list) == 0 && !d.podUnapplied():
		return // a container is not steady, or restarts
	case unapplied && wait > 0 && (len(list) > 0 || r.GetError() != ""):
		d.timer(resizeTimer, wait)
		return
	}
	d.clearTimer(resizeTimer)
	if !unapplied {
		d.decide(&journaletv1.ResizeCompleted{Uid: d.self.ID})
		return
	}
	if len(list) == 0 {
		d.requestCall(&journaletv1.UpdateSandbox{
			SandboxId: d.state.GetSandboxId(), Digest: d.state.GetPod().GetDigest(),
			AllocatedDigest: d.state.GetAllocatedDigest(), Resources: resources.OfPod(d.manifest),
			ExclusiveCpus: d.exclusiveCPUs(),
		})
		return
	}
	w := &journaletv1.UpdateContainer{
		Container: list[0].container, ContainerId: list[0].id, Resources: list[0].to,
		Digest: d.state.GetPod().GetDigest(), AllocatedDigest: d.state.GetAllocatedDigest(),
		SandboxId: d.state.GetSandboxId(), Placement: d.placement(list[0].container),
	}
	for _, c := range list {
		if c.lowered != nil {
			w.FallingLimits = append(w.FallingLimits, c.lowered)
		}
	}
	d.requestCall(w)
}
