package pod

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// tearDown stops the sandboxes of a terminated pod, tears its volumes down and removes old instances. The rest stays
// for its logs and its status until the source no longer names the pod. After a lost journal a pod may be rejected or
// preempted before its containers are observed: they have their grace period first.
func (d *step) tearDown() {
	d.withdrawCleaning()
	if d.AnyAlive() {
		d.stopAll(d.stopReason())
		return
	}
	if d.endsUnobserved() {
		return
	}
	if !d.stopSandboxes(d.holdsNetwork) {
		return
	}
	if d.tearsDown() && !d.calling(sandboxCall) && !d.calling(volumesCall) {
		d.cleanPod(false)
	}
	d.removeOld()
	d.reclaimed()
}

// reclaimed reports to the node that the pod holds nothing any more, if it has requested that.
func (d *step) reclaimed() {
	q := d.state.GetReclaim()
	if q == nil || d.tearsDown() || d.calling(isNoHook) ||
		q.GetContainers() && len(d.state.GetObserved().GetContainers()) > 0 {
		return
	}
	d.decide(&journaletv1.PodReclaimed{Uid: d.self.ID})
}

// stopSandboxes stops the pod's sandboxes that match, one after the other in the runtime's order. over reports that
// none is left.
func (d *step) stopSandboxes(match func(*journaletv1.SandboxObservation) bool) (over bool) {
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if !match(x) {
			continue
		}
		if d.calling(sandboxCall) {
			return false
		}
		if wait := d.tearDownWait(); wait > 0 {
			d.timer(tearDownTimer, wait)
			return false
		}
		d.requestCall(&journaletv1.StopSandbox{SandboxId: x.GetId()})
		return false
	}
	return true
}

func isReady(x *journaletv1.SandboxObservation) bool {
	return x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY
}

// holdsNetwork reports whether a sandbox may hold an address and host ports. One that died by itself does until it is
// stopped.
func (d *step) holdsNetwork(x *journaletv1.SandboxObservation) bool {
	return isReady(x) || !slices.Contains(d.state.GetStoppedSandboxes(), x.GetId())
}

// clean removes everything that the pod left on the node, and then emits PodFinished.
func (d *step) clean() {
	d.withdrawCleaning()
	d.deleteObject()
	// A hook or a plugin that was withdrawn holds up nothing, even if it is slow to end.
	if d.calling(isNoHook) {
		return
	}
	if wait := d.tearDownWait(); wait > 0 {
		d.timer(tearDownTimer, wait)
		return
	}
	if d.AnyAlive() {
		d.stopAll("no source names this pod")
		return
	}
	if d.endsUnobserved() {
		return
	}
	// Stops come first, and removals after the stops of every other pod: see LANE_REMOVE. A removal also stops a dead
	// sandbox.
	if !d.stopSandboxes(isReady) {
		return
	}
	for _, x := range d.state.GetObserved().GetSandboxes() {
		d.removeSandbox(x.GetId())
	}
	if id := d.state.GetSandboxId(); id != "" {
		d.removeSandbox(id)
	}
	for _, c := range d.state.GetObserved().GetContainers() {
		if d.inSandbox(c) {
			continue
		}
		d.requestCall(&journaletv1.RemoveContainer{Container: c.GetName(), ContainerId: c.GetId()})
	}
	if d.calling(isNoHook) {
		return
	}
	if (d.state.GetUsedRuntime() || d.hasObject()) && !d.state.GetCleanedAll() {
		d.cleanPod(true)
		return
	}
	if len(d.state.Calls) > 0 {
		return
	}
	d.finishIfGone()
}

// withdrawCleaning withdraws what would tear volumes down while a container runs. After a lost journal a container may
// be observed only when this is requested: it is stopped first.
func (d *step) withdrawCleaning() {
	if !d.AnyAlive() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		if d.state.Calls[id].GetRequest().GetCleanPod() == nil {
			continue
		}
		d.withdrawCall(id)
	}
}

// endsUnobserved reports whether a container was stopped whose end is not observed yet. With its sandbox the runtime
// forgets how it ended.
func (d *step) endsUnobserved() bool {
	return slices.ContainsFunc(d.state.GetObserved().GetContainers(), func(c *journaletv1.ContainerObservation) bool {
		return c.GetState() == stoppedUnobserved
	})
}

func isNoHook(r *journaletv1.CallRequested) bool {
	return r.GetRunHook() == nil && !messages.IsAboutDevices(r) && r.GetReadClaims() == nil
}

// stopAll stops every container that is observed alive. Only an orphan, or a pod of a lost journal, can have one: every
// other pod was terminated before.
func (d *step) stopAll(reason string) {
	for _, c := range d.state.GetObserved().GetContainers() {
		if alive(c) && !d.calling(forContainer(c.GetName())) {
			d.stop(c, reason)
		}
	}
}

func (d *step) finish() {
	for _, name := range slices.Sorted(maps.Keys(d.state.GetTimers().GetSet())) {
		d.clearTimer(name)
	}
	source := d.state.GetSource()
	if source == "" {
		source = orphanSource
	}
	d.decide(&journaletv1.PodFinished{
		Uid: d.self.ID, Source: source, Orphan: d.state.GetSource() == "",
		Unseen:       d.state.GetTrustsFirstInspection() && d.Unseen() && !d.state.GetCleanedAll(),
		RestartsGoOn: len(countedOn(d.state.GetContainers())) > 0,
	})
}

// removeOld removes dead instances if a newer dead instance is kept, and sandboxes without a kept container (kubelet:
// MaxPerPodContainerCount 1; the newest sandbox stays). It removes no instance of a container while the start of the
// newest one is under way: if that one is found dead, it may turn out not to have run, and then the instance before it
// is the newest. A node that is short of storage keeps no dead instance.
func (d *step) removeOld() {
	hold := map[string]bool{d.newestSandbox(): true}
	for _, c := range d.state.GetObserved().GetContainers() {
		hold[c.GetSandboxId()] = true
		r := d.record(c.GetName())
		kept := c.GetId() == r.GetCurrent().GetId() || c.GetId() == d.last(r).GetId() && !d.outlived(r)
		if kept && !d.state.GetReclaim().GetContainers() || alive(c) ||
			d.calling(startOfNewest(r)) ||
			d.calling(func(q *journaletv1.CallRequested) bool { return q.GetRemoveContainer().GetContainerId() == c.GetId() }) {
			continue
		}
		if wait := d.tearDownWait(); wait > 0 {
			d.timer(tearDownTimer, wait)
			return
		}
		d.requestCall(&journaletv1.RemoveContainer{
			Container: c.GetName(), ContainerId: c.GetId(), KeepAsLast: r.GetLast() == nil && c.GetId() == d.last(r).GetId(),
		})
	}
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if hold[x.GetId()] {
			continue
		}
		if wait := d.tearDownWait(); wait > 0 {
			d.timer(tearDownTimer, wait)
			return
		}
		d.removeSandbox(x.GetId())
	}
}

// startOfNewest matches the start of a container's newest instance.
func startOfNewest(r *journaletv1.ContainerRecord) func(*journaletv1.CallRequested) bool {
	return func(q *journaletv1.CallRequested) bool {
		s := q.GetStartContainer()
		return s.GetContainer() == r.GetName() && s.GetAttempt() == r.GetCurrent().GetAttempt()
	}
}

// newestSandbox returns the pod's sandbox, or the last one of a pod that has ended.
func (d *step) newestSandbox() string {
	id, attempt := d.state.GetSandboxId(), uint32(0)
	if id != "" {
		return id
	}
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if x.GetAttempt() >= attempt {
			id, attempt = x.GetId(), x.GetAttempt()
		}
	}
	return id
}

// outlived reports whether the instance before the newest is of no use any more: the newest one is dead and still
// there.
func (d *step) outlived(r *journaletv1.ContainerRecord) bool {
	return exited(r.GetCurrent()) && slices.ContainsFunc(d.state.GetObserved().GetContainers(),
		func(c *journaletv1.ContainerObservation) bool { return c.GetId() == r.GetCurrent().GetId() })
}

// inSandbox reports whether a container goes with a sandbox of the pod.
func (d *step) inSandbox(c *journaletv1.ContainerObservation) bool {
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if x.GetId() == c.GetSandboxId() {
			return true
		}
	}
	return false
}

func (d *step) removeSandbox(id string) {
	if d.calling(func(r *journaletv1.CallRequested) bool { return r.GetRemoveSandbox().GetSandboxId() == id }) {
		return
	}
	d.requestCall(&journaletv1.RemoveSandbox{SandboxId: id})
}

func (d *step) cleanPod(all bool) {
	if d.calling(func(r *journaletv1.CallRequested) bool { return r.GetCleanPod() != nil }) {
		return
	}
	if wait := d.tearDownWait(); wait > 0 {
		d.timer(tearDownTimer, wait)
		return
	}
	p := d.state.GetPod()
	d.requestCall(&journaletv1.CleanPod{
		Namespace: p.GetNamespace(), Name: p.GetName(), All: all, Csi: d.hasApart(),
	})
}
