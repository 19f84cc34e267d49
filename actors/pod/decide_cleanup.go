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
func (d *step) tearDown() error {
	if err := d.withdrawCleaning(); err != nil {
		return err
	}
	if d.AnyAlive() {
		return d.stopAll(d.stopReason())
	}
	if d.endsUnobserved() {
		return nil
	}
	if over, err := d.stopSandboxes(d.holdsNetwork); err != nil || !over {
		return err
	}
	if d.tearsDown() && !d.calling(sandboxCall) && !d.calling(volumesCall) {
		if err := d.cleanPod(false); err != nil {
			return err
		}
	}
	if err := d.removeOld(); err != nil {
		return err
	}
	return d.reclaimed()
}

// reclaimed reports to the node that the pod holds nothing any more, if it has requested that.
func (d *step) reclaimed() error {
	q := d.state.GetReclaim()
	if q == nil || d.tearsDown() || d.calling(isNoHook) ||
		q.GetContainers() && len(d.state.GetObserved().GetContainers()) > 0 {
		return nil
	}
	return d.decide(&journaletv1.PodReclaimed{Uid: d.self.ID})
}

// stopSandboxes stops the pod's sandboxes that match, one after the other in the runtime's order. over reports that
// none is left.
func (d *step) stopSandboxes(match func(*journaletv1.SandboxObservation) bool) (over bool, err error) {
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if !match(x) {
			continue
		}
		if d.calling(sandboxCall) {
			return false, nil
		}
		if wait := d.tearDownWait(); wait > 0 {
			return false, d.timer(tearDownTimer, wait)
		}
		return false, d.requestCall(&journaletv1.StopSandbox{SandboxId: x.GetId()})
	}
	return true, nil
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
func (d *step) clean() error {
	if err := d.withdrawCleaning(); err != nil {
		return err
	}
	if err := d.deleteObject(); err != nil {
		return err
	}
	// A hook or a plugin that was withdrawn holds up nothing, even if it is slow to end.
	if d.calling(isNoHook) {
		return nil
	}
	if wait := d.tearDownWait(); wait > 0 {
		return d.timer(tearDownTimer, wait)
	}
	if d.AnyAlive() {
		return d.stopAll("no source names this pod")
	}
	if d.endsUnobserved() {
		return nil
	}
	// Stops come first, and removals after the stops of every other pod: see LANE_REMOVE. A removal also stops a dead
	// sandbox.
	if over, err := d.stopSandboxes(isReady); err != nil || !over {
		return err
	}
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if err := d.removeSandbox(x.GetId()); err != nil {
			return err
		}
	}
	if id := d.state.GetSandboxId(); id != "" {
		if err := d.removeSandbox(id); err != nil {
			return err
		}
	}
	for _, c := range d.state.GetObserved().GetContainers() {
		if d.inSandbox(c) {
			continue
		}
		if err := d.requestCall(&journaletv1.RemoveContainer{Container: c.GetName(), ContainerId: c.GetId()}); err != nil {
			return err
		}
	}
	if d.calling(isNoHook) {
		return nil
	}
	if (d.state.GetUsedRuntime() || d.hasObject()) && !d.state.GetCleanedAll() {
		return d.cleanPod(true)
	}
	if len(d.state.Calls) > 0 {
		return nil
	}
	return d.leave()
}

// withdrawCleaning withdraws what would tear volumes down while a container runs. After a lost journal a container may
// be observed only when this is requested: it is stopped first.
func (d *step) withdrawCleaning() error {
	if !d.AnyAlive() {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		if d.state.Calls[id].GetRequest().GetCleanPod() == nil {
			continue
		}
		if err := d.withdrawCall(id); err != nil {
			return err
		}
	}
	return nil
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
func (d *step) stopAll(reason string) error {
	for _, c := range d.state.GetObserved().GetContainers() {
		if alive(c) && !d.calling(forContainer(c.GetName())) {
			if err := d.stop(c, reason); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *step) finish() error {
	for _, name := range slices.Sorted(maps.Keys(d.state.GetTimers().GetSet())) {
		if err := d.clearTimer(name); err != nil {
			return err
		}
	}
	source := d.state.GetSource()
	if source == "" {
		source = orphanSource
	}
	return d.decide(&journaletv1.PodFinished{Uid: d.self.ID, Source: source, Orphan: d.state.GetSource() == ""})
}

// removeOld removes dead instances of which a newer dead one is kept, and sandboxes without a container that is kept
// (kubelet: MaxPerPodContainerCount 1; the newest sandbox stays). Nothing is removed while the start of the newest
// instance is under way. If that instance is found dead it may turn out not to have run, and then the one before it is
// the newest. A node that is short of storage has none of them kept.
func (d *step) removeOld() error {
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
			return d.timer(tearDownTimer, wait)
		}
		if err := d.requestCall(&journaletv1.RemoveContainer{
			Container: c.GetName(), ContainerId: c.GetId(), KeepAsLast: r.GetLast() == nil && c.GetId() == d.last(r).GetId(),
		}); err != nil {
			return err
		}
	}
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if hold[x.GetId()] {
			continue
		}
		if wait := d.tearDownWait(); wait > 0 {
			return d.timer(tearDownTimer, wait)
		}
		if err := d.removeSandbox(x.GetId()); err != nil {
			return err
		}
	}
	return nil
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

func (d *step) removeSandbox(id string) error {
	if d.calling(func(r *journaletv1.CallRequested) bool { return r.GetRemoveSandbox().GetSandboxId() == id }) {
		return nil
	}
	return d.requestCall(&journaletv1.RemoveSandbox{SandboxId: id})
}

func (d *step) cleanPod(all bool) error {
	if d.calling(func(r *journaletv1.CallRequested) bool { return r.GetCleanPod() != nil }) {
		return nil
	}
	if wait := d.tearDownWait(); wait > 0 {
		return d.timer(tearDownTimer, wait)
	}
	p := d.state.GetPod()
	return d.requestCall(&journaletv1.CleanPod{
		Namespace: p.GetNamespace(), Name: p.GetName(), All: all, Csi: d.hasApart(),
	})
}
