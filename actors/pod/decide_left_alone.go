package pod

import (
	"slices"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A pod of the API server that this version does not carry out, and that runs already, is left alone: nothing of it is
// set up, probed or started (ADR 112).

// InspectionTimer is the name of the timer that ends such a pod's wait for an inspection that shows whether it runs.
const InspectionTimer = "inspection"

// LeftAlone reports whether the pod runs as another agent has started it, and is left so.
func (a *Actor) LeftAlone() bool { return a.state.GetLeftAlone() }

// unsupported returns what of the pod this version does not carry out; "" for nothing.
func (a *Actor) unsupported() string { return a.state.GetPod().GetApi().GetUnsupported() }

// awaitsInspection reports whether the pod waits for an inspection before it requests its admission: it is left alone
// if it runs, which only its status at the API server shows so far. An inspection shows nothing of a pod that has
// nothing at the runtime, so the wait has an end. It begins again in each run of the agent: nothing is inspected while
// no agent runs.
func (d *step) awaitsInspection() bool {
	if d.unsupported() == "" || !d.state.GetPod().GetApi().GetShownRunning() || !d.Unseen() || d.fired(InspectionTimer) {
		return false
	}
	if slices.ContainsFunc(d.in.Events, func(e actors.Event) bool { return e.Body.GetAgentStarted() != nil }) {
		d.clearTimer(InspectionTimer)
	}
	d.timer(InspectionTimer, orphanWait)
	return true
}

// leaveAlone starts nothing. The pod ends as any other one does; or it fails, once nothing of it runs that was to run
// on.
func (d *step) leaveAlone() {
	switch {
	case d.evict():
	case d.done(), d.initFailed():
		d.conclude()
	case d.deadline():
	case !d.AnyAlive():
		d.decide(&journaletv1.PodTerminating{
			Reason: actors.ReasonUnsupported, Failed: true,
			Message: "its containers have ended, and this node does not support " + d.unsupported(),
		})
	default:
		d.place(false)
		d.leaveFoundCPUs()
	}
}
