package pod

import (
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// What operators request, and what the node decides for a drain or a shutdown (ADR 049).

const (
	// reasonRestart is the stop reason of what an operator requested to be restarted.
	reasonRestart = "restart requested"
	// restartTimer ends the grace period of a pod whose containers are all restarted.
	restartTimer = "restart"
)

// Refusal is why a restart cannot be requested now: in words, with what to do instead.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// CanRestart returns a Refusal if a RestartRequested for this container, or with "" for the whole pod, would do
// nothing.
func (a *Actor) CanRestart(container string) error {
	s := a.state
	switch {
	case s.GetPod() == nil:
		return Refusal("no source names it: it is being removed")
	case s.GetStage() == finished || a.ends():
		return Refusal("it is being removed, or makes way for another incarnation")
	case a.ofAPI() && s.GetStage() == terminated:
		return Refusal("it has ended, and a pod of the API server never runs again: create another one")
	case s.GetRejected():
		return Refusal("the node rejected it (" + s.GetReason() + "): there is nothing to restart; change its manifest, or " +
			"make room and write it again")
	case s.GetStage() == admitting:
		return Refusal("it is not admitted yet: there is nothing to restart")
	case s.GetEndedByNode() && s.GetReason() == ReasonEvicted:
		return Refusal("the node evicted it, and starts it again when it is no longer short; " +
			"another pod of it starts at once if its manifest changes")
	case s.GetEndedByNode():
		return Refusal("the node ended it (" + s.GetReason() + "): it is admitted again after that, see journalet uncordon")
	case s.GetStage() == terminating:
		return Refusal("it terminates: wait until it has ended")
	case a.LeftAlone():
		return Refusal("it is left alone: another agent has started it, and this one does not support " + a.unsupported())
	case container == "":
		return nil
	case a.spec(container) == nil:
		return Refusal("it has no container " + container)
	case a.isEphemeral(container):
		return Refusal("an ephemeral container runs once: add another one to the pod")
	case s.GetStage() == terminated:
		return Refusal("it has ended: restart the whole pod")
	case a.runsToCompletion(a.spec(container)):
		return Refusal("an init container runs only while its pod starts: restart the whole pod")
	}
	return nil
}

// stopWithGrace stops a container of a pod whose containers are all restarted at an operator's request: sidecars last,
// all of them within one grace period.
func (d *step) stopWithGrace(c *journaletv1.ContainerObservation) {
	left := d.restartLeft()
	if left > 0 {
		d.timer(restartTimer, left)
		if d.sidecarWaits(c.GetName()) {
			return
		}
	}
	d.terminateContainer(c, reasonRestart, left)
}

// restartLeft returns what is left of the grace period of a restart of all containers.
func (d *step) restartLeft() time.Duration {
	r := d.state.GetRestart()
	if r.GetPastGrace() {
		return 0
	}
	return d.left(r.GetSince(), d.grace())
}

// ReasonDrained is the status reason of pods that a drain of the node ended, and of pods that wait for the end of the
// drain.
const ReasonDrained = "NodeDrained"

// Ending is how long a pod has to end, and what it waits for while it does.
type Ending struct {
	// Grace is its grace period. Until is the end of it, zero for a pod that does not terminate.
	Grace time.Duration
	Until time.Time
	Waits []Wait
}

// Ending returns how the pod ends, or would end.
func (a *Actor) Ending() Ending {
	e := Ending{Grace: a.grace()}
	if a.state.GetStage() == terminating {
		e.Until, e.Waits = a.state.GetTerminatingAt().AsTime().Add(e.Grace), a.Waits()
	}
	return e
}

// endWhileDeferred stops what runs of a pod that waits for the end of a drain, or for the pod that has its name. Only
// after a lost journal something does: a drain ends the pods that were admitted, and of two pods with one name the
// first one runs alone (ADR 113).
func (d *step) endWhileDeferred() {
	reason := d.state.GetReason()
	if d.state.GetHolderUid() != "" {
		reason = "another pod has its name"
	} else if reason != ReasonDrained {
		return
	}
	if d.AnyAlive() {
		d.stopAll(reason)
		return
	}
	d.stopSandboxes(isReady)
}
