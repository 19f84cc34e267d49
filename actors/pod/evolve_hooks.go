package pod

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveHookAsked notes that an instance ends, with its preStop hook first.
func (a *Actor) evolveHookAsked(e actors.Event, w *journaletv1.RunHook) {
	if w.GetKind() != preStopHook {
		return
	}
	a.evolveEndAsked(w.GetContainer(), w.GetContainerId())
	r := a.keep(w.GetContainer())
	r.Termination = &journaletv1.ContainerTermination{
		ContainerId: w.GetContainerId(), Reason: w.GetReason(), Since: timestamppb.New(e.Time), Grace: w.GetTimeout(),
	}
	if w.GetReason() == reasonChanged {
		r.Replacing = true
	}
}

// evolveHook folds the outcome of a hook.
func (a *Actor) evolveHook(w *journaletv1.RunHook, f *journaletv1.CallFinished) {
	r := a.keep(w.GetContainer())
	if f.GetError() == journaletv1.CallError_CALL_ERROR_NOT_DONE {
		// The instance ended before its hook could. How it ended is for a look to tell.
		a.stopContainer(w.GetContainer(), w.GetContainerId())
	}
	if w.GetKind() == preStopHook {
		r.PreStoppedId = w.GetContainerId()
		return
	}
	if r.GetCurrent().GetId() != w.GetContainerId() || a.state.GetStage() != runningPod {
		// Of a pod that ends, nothing starts any more.
		return
	}
	switch f.GetError() {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		r.PostStartedId = w.GetContainerId()
	case journaletv1.CallError_CALL_ERROR_NOT_DONE, journaletv1.CallError_CALL_ERROR_WITHDRAWN:
	default:
		if running(r.GetCurrent()) {
			r.StoppedAsUnhealthy = true
			r.StartError = &journaletv1.ContainerWaiting{Reason: reasonHookError, Message: f.GetMessage()}
		}
	}
}

// adoptHooks takes what runs already, started by an agent whose journal is lost, as started: its postStart hook was for
// that agent to run, and must not end it now.
func (a *Actor) adoptHooks() {
	for c := range a.all() {
		if r := a.state.Containers[c.Name]; handler(c, postStartHook) != nil && running(r.GetCurrent()) {
			r.PostStartedId = r.GetCurrent().GetId()
		}
	}
}
