package pod

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// removeOld removes dead instances of which a newer dead one is kept, and sandboxes that hold nothing that is kept
// (kubelet: MaxPerPodContainerCount 1; of the sandboxes the newest stays). Nothing goes while the newest
// instance's start is under way: found dead within it, it may turn out not to have run, and then the one before it is the newest.
func (d *step) removeOld() error {
	hold := map[string]bool{d.newestSandbox(): true}
	for _, c := range d.state.GetObserved().GetContainers() {
		hold[c.GetSandboxId()] = true
		r := d.record(c.GetName())
		if c.GetId() == r.GetCurrent().GetId() || c.GetId() == d.last(r).GetId() && !d.outlived(r) || alive(c) ||
			d.calling(beginning(r)) ||
			d.calling(func(q *journaletv1.CallRequested) bool { return q.GetRemoveContainer().GetContainerId() == c.GetId() }) {
			continue
		}
		if wait := d.tearDownWait(); wait > 0 {
			return d.timer(tearDownTimer, wait)
		}
		if err := d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_RemoveContainer{
			RemoveContainer: &journaletv1.RemoveContainer{
				Container: c.GetName(), ContainerId: c.GetId(), KeepAsLast: r.GetLast() == nil && c.GetId() == d.last(r).GetId(),
			},
		}}); err != nil {
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

// beginning matches the start of a container's newest instance.
func beginning(r *journaletv1.ContainerRecord) func(*journaletv1.CallRequested) bool {
	return func(q *journaletv1.CallRequested) bool {
		s := q.GetStartContainer()
		return s.GetContainer() == r.GetName() && s.GetAttempt() == r.GetCurrent().GetAttempt()
	}
}

// newestSandbox is the pod's sandbox, or, of a pod that has ended, the last one it had.
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

// outlived tells whether the instance before the newest is of no use any more: the newest one is dead and there itself.
func (d *step) outlived(r *journaletv1.ContainerRecord) bool {
	return exited(r.GetCurrent()) && slices.ContainsFunc(d.state.GetObserved().GetContainers(),
		func(c *journaletv1.ContainerObservation) bool { return c.GetId() == r.GetCurrent().GetId() })
}

// tearDown stops the sandboxes of a pod that has ended, takes its volumes down and removes what is old. The rest stays
// for its logs and its status until the source no longer names the pod.
func (d *step) tearDown() error {
	if over, err := d.stopSandboxes(d.holds); err != nil || !over {
		return err
	}
	if d.manifest != nil && len(d.manifest.Spec.Volumes) > 0 && d.state.GetUsedRuntime() && !d.calling(sandboxCall) && !d.calling(volumesCall) {
		if err := d.cleanPod(false); err != nil {
			return err
		}
	}
	return d.removeOld()
}

// stopSandboxes stops those of the pod's sandboxes that match, one after the other as the runtime's order wants it; over
// tells that none is left.
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
		return false, d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_StopSandbox{
			StopSandbox: &journaletv1.StopSandbox{SandboxId: x.GetId()},
		}})
	}
	return true, nil
}

func isReady(x *journaletv1.SandboxObservation) bool {
	return x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY
}

// holds tells whether a sandbox may hold an address and host ports. One that died by itself does until it is stopped.
func (d *step) holds(x *journaletv1.SandboxObservation) bool {
	return isReady(x) || !slices.Contains(d.state.GetStoppedSandboxes(), x.GetId())
}

// clean removes everything that the pod left on the node, and then says so.
func (d *step) clean() error {
	// A hook that is taken back holds up nothing, not even if it is slow to go.
	if d.calling(isNoHook) {
		return nil
	}
	if wait := d.tearDownWait(); wait > 0 {
		return d.timer(tearDownTimer, wait)
	}
	if d.anyAlive() {
		return d.stopAll("no source names this pod")
	}
	// Stopping comes first and removing after every other pod's stop: see LANE_REMOVE.
	// What is dead is stopped as it is removed.
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
		if err := d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_RemoveContainer{
			RemoveContainer: &journaletv1.RemoveContainer{Container: c.GetName(), ContainerId: c.GetId()},
		}}); err != nil {
			return err
		}
	}
	if d.calling(isNoHook) {
		return nil
	}
	if d.state.GetUsedRuntime() && !d.state.GetCleanedAll() {
		return d.cleanPod(true)
	}
	if len(d.state.Calls) > 0 {
		return nil
	}
	return d.finish()
}

func isNoHook(r *journaletv1.CallRequested) bool { return r.GetRunHook() == nil }

// stopAll stops every container that is observed alive. Only a pod that no source named can have one
// when it is cleaned: every other has been terminated before.
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
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_PodFinished{
		PodFinished: &journaletv1.PodFinished{Uid: d.self.ID, Source: source, Orphan: d.state.GetSource() == ""},
	}})
}

// inSandbox tells whether a container goes away with a sandbox of the pod.
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
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_RemoveSandbox{
		RemoveSandbox: &journaletv1.RemoveSandbox{SandboxId: id},
	}})
}

func (d *step) cleanPod(all bool) error {
	if !all && d.state.GetCleanedVolumes() || d.calling(func(r *journaletv1.CallRequested) bool { return r.GetCleanPod() != nil }) {
		return nil
	}
	if wait := d.tearDownWait(); wait > 0 {
		return d.timer(tearDownTimer, wait)
	}
	p := d.state.GetPod()
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_CleanPod{CleanPod: &journaletv1.CleanPod{
		Namespace: p.GetNamespace(), Name: p.GetName(), All: all,
	}}})
}
