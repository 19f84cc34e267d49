package pod

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/messages/journaletv1"
)

// cpusTimer ends the wait after a call that failed to change a container's CPUs. The container's name follows.
const cpusTimer = "cpus "

// placement returns where a container is to run (ADR 064); nil: anywhere.
func (a *Actor) placement(container string) *journaletv1.Placement {
	s := a.state
	given := exclusive.Pod(s.GetExclusive())
	p := &journaletv1.Placement{Cpus: s.GetSharedCpus(), PodExclusive: a.exclusiveCPUs()}
	if c := given.Of(container); c != nil {
		p.MemoryNodes = c.GetMemoryNodes()
		if c.GetCpus() != "" {
			p.Cpus, p.Exclusive = c.GetCpus(), true
		}
	}
	if p.Cpus == "" && len(p.MemoryNodes) == 0 {
		return nil
	}
	return p
}

// exclusiveCPUs reports whether a container of the pod has exclusive CPUs.
func (a *Actor) exclusiveCPUs() bool {
	for _, c := range a.state.GetExclusive() {
		if c.GetCpus() != "" {
			return true
		}
	}
	return false
}

// given returns what the pod's containers have that is not everybody's, and what they may still have from before the
// journal began; nil: nothing.
func (a *Actor) given() *journaletv1.GivenResources {
	g := &journaletv1.GivenResources{Exclusive: a.state.GetExclusive(), Rest: a.state.GetRest()}
	for _, alloc := range a.state.GetDevices() {
		d := alloc.GetDevices()
		g.Devices = append(g.Devices, &journaletv1.ContainerDevices{
			Container: d.GetContainer(), Resource: d.GetResource(), Ids: d.GetIds(),
		})
	}
	if len(g.GetExclusive())+len(g.GetDevices()) == 0 && g.Rest == nil {
		return nil
	}
	return g
}

// place moves the running containers whose CPUs have changed to the CPUs that they are to have, one call after the
// other. It also moves containers of a pod that ends, since their grace period may be long, but then repeats no failed
// call.
func (d *step) place(ends bool) {
	if d.calling(updateCall) {
		return
	}
	for c := range containers.All(d.manifest) {
		r, p := d.record(c.Name), d.placement(c.Name)
		if p.GetCpus() == "" || p.GetCpus() == r.GetCpus() || !d.placeable(r) || ends && r.GetCpusFailures() > 0 {
			d.clearTimer(cpusTimer + c.Name)
			continue
		}
		if wait := d.left(r.GetCpusFailedAt(), startDelay(r.GetCpusFailures(), d.maxBackOff())); wait > 0 {
			d.timer(cpusTimer+c.Name, wait)
			continue
		}
		d.requestCall(&journaletv1.UpdateContainer{
			Container: c.Name, ContainerId: r.GetCurrent().GetId(), Digest: d.state.GetPod().GetDigest(),
			AllocatedDigest: d.state.GetAllocatedDigest(), Placement: p, BesideStop: true,
		})
		return
	}
}

// leaveFoundCPUs reports to the node that no container runs any more on CPUs that the pod had before the journal began
// and does not get: all that run were moved, or were started with others.
func (d *step) leaveFoundCPUs() {
	rest, seen := exclusive.Parse(d.state.GetRest().GetCpus()), d.state.GetObserved()
	if rest.IsEmpty() || seen.GetObservedAt() == nil {
		return
	}
	for _, c := range seen.GetContainers() {
		r := d.state.GetContainers()[c.GetName()]
		on := exclusive.Parse(r.GetCpus())
		left := r.GetCurrent().GetId() == c.GetId() && !on.IsEmpty() && on.Intersection(rest).IsEmpty()
		if alive(c) && !left {
			return
		}
	}
	d.decide(&journaletv1.FoundCpusLeft{Uid: d.self.ID})
}

// placeable reports whether a container's newest instance runs, also if it is being stopped.
func (a *Actor) placeable(r *journaletv1.ContainerRecord) bool {
	cur := r.GetCurrent()
	return running(cur) && !a.wasStopped(cur) && !a.calling(startOf(r.GetName()))
}

// evolveFoundCPUsLeft folds that no container runs any more on CPUs from before the journal began.
func (a *Actor) evolveFoundCPUsLeft() {
	rest := &journaletv1.RestOfResources{Devices: a.state.GetRest().GetDevices()} // the admission shares it
	if a.state.Rest = rest; len(rest.GetDevices()) == 0 {
		a.state.Rest = nil
	}
}

// evolveCreating folds that an instance is about to be created, on these CPUs.
func evolveCreating(r *journaletv1.ContainerRecord, p *journaletv1.Placement) {
	r.Cpus, r.CpusFailures, r.CpusFailedAt = p.GetCpus(), 0, nil
}

// evolvePlaced folds the outcome of an UpdateContainer call, as far as it concerns where the container runs.
func (a *Actor) evolvePlaced(e actors.Event, w *journaletv1.UpdateContainer, f *journaletv1.CallFinished) {
	r := a.ensureRecord(w.GetContainer())
	if w.GetPlacement() == nil || r.GetCurrent().GetId() != w.GetContainerId() {
		return
	}
	switch f.GetError() {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		evolveCreating(r, w.GetPlacement())
	case journaletv1.CallError_CALL_ERROR_WITHDRAWN:
	default:
		if w.GetResources() != nil {
			return // the resize failed, and maybe by what it changes beside: exclusive CPUs are another call
		}
		r.CpusFailures++
		r.CpusFailedAt = timestamppb.New(e.Time)
	}
}
