package pod

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveHookRequested records that the termination of an instance begins with its preStop hook.
func (a *Actor) evolveHookRequested(e actors.Event, w *journaletv1.RunHook) {
	if w.GetKind() != preStopHook {
		return
	}
	a.evolveStopRequested(w.GetContainer(), w.GetContainerId())
	r := a.ensureRecord(w.GetContainer())
	r.Termination = &journaletv1.ContainerTermination{
		ContainerId: w.GetContainerId(), Reason: w.GetReason(), Since: timestamppb.New(e.Time), Grace: w.GetTimeout(),
	}
	if w.GetReason() == reasonChanged || w.GetReason() == reasonRestart {
		r.Replacing = true
	}
}

// evolveHookFinished folds the outcome of a hook.
func (a *Actor) evolveHookFinished(w *journaletv1.RunHook, f *journaletv1.CallFinished) {
	r := a.ensureRecord(w.GetContainer())
	if f.GetError() == journaletv1.CallError_CALL_ERROR_NOT_DONE {
		// The instance ended before its hook could. An inspection will show how.
		a.markStopped(w.GetContainer(), w.GetContainerId())
	}
	if w.GetKind() == preStopHook {
		r.PreStoppedId = w.GetContainerId()
		return
	}
	if r.GetCurrent().GetId() != w.GetContainerId() || a.state.GetStage() != runningPod {
		// In a pod that ends nothing starts any more.
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

// adoptHooks folds that containers found running have been started: their postStart hook was run by the agent whose
// journal is lost, and must not end them now.
func (a *Actor) adoptHooks() {
	for c := range a.all() {
		if r := a.state.Containers[c.Name]; handler(c, postStartHook) != nil && running(r.GetCurrent()) {
			r.PostStartedId = r.GetCurrent().GetId()
		}
	}
}

// adoptHook folds the same of a container without a record of its start, if no inspection had shown the pod before
// (unseen): the inspection may have been slower than the source that added the pod. So it is with a container that a
// kubelet has started, which carries no intent. Another one was started at the end of a journal, which is lost: its
// hook is run.
func (a *Actor) adoptHook(c *journaletv1.ContainerObservation, unseen bool) {
	r := a.record(c.GetName())
	if (unseen || c.GetIntentId() == "") && running(r.GetCurrent()) && r.GetCurrent().GetId() == c.GetId() {
		r.PostStartedId = c.GetId()
	}
}
