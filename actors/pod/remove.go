package pod

import (
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
