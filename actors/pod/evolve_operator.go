package pod

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveRestartRequested folds an operator's request. It adds nothing to an earlier one until an instance has started
// after that. A pod that has ended begins another incarnation; in any other stage there is nothing to restart.
func (a *Actor) evolveRestartRequested(e actors.Event, q *journaletv1.RestartRequested) {
	s := a.state
	if a.CanRestart(q.GetContainer()) != nil {
		return
	}
	if s.GetStage() == terminated {
		a.evolveRemoved(e, nil)
		return
	}
	if q.GetContainer() != "" {
		a.requestRestart(q.GetContainer())
		return
	}
	if s.GetRestart() == nil && !a.allRestarting() {
		s.Restart = &journaletv1.PodRestart{Since: timestamppb.New(e.Time)}
	}
	for c := range a.all() {
		a.requestRestart(c.Name)
	}
}

// requestRestart marks a container for its restart: what delayed its next start counts no more.
func (a *Actor) requestRestart(name string) {
	r := a.ensureRecord(name)
	r.RestartRequested, r.StartFailedAt, r.StartsNotRun = true, nil, 0
}

// allRestarting reports whether no container has started since an operator requested the restart of all of them.
func (a *Actor) allRestarting() bool {
	for c := range a.all() {
		if !a.record(c.Name).GetRestartRequested() {
			return false
		}
	}
	return true
}

// evolveDeferred folds why the pod waits for its admission.
func (a *Actor) evolveDeferred(d *journaletv1.AdmissionDeferred) {
	s := a.state
	if s.GetStage() != admitting {
		return
	}
	s.HolderUid, s.Reason, s.Message = d.GetHolderUid(), d.GetReason(), d.GetMessage()
}

// evolveEviction folds that the node ends the pod, for a drain or a shutdown. A pod that terminates already has at most
// this grace period.
func (a *Actor) evolveEviction(e actors.Event, d *journaletv1.PodEvictionDecided) {
	s := a.state
	switch s.GetStage() {
	case runningPod:
		a.enter(terminating, e.Time)
		s.Fails, s.EndedByNode = true, true
		s.Reason, s.Message = d.GetReason(), d.GetMessage()
	case terminating:
	default:
		return // it has ended by itself, and stays as it is
	}
	if g := d.GetGrace(); g != nil && g.AsDuration() < a.grace() {
		s.Grace = durationpb.New(g.AsDuration())
	}
}

// evolveReclaimRequested folds that the node is to have back what a pod holds that ends, or has ended.
func (a *Actor) evolveReclaimRequested(q *journaletv1.PodReclaimRequested) {
	if s := a.state; s.GetStage() == terminating || s.GetStage() == terminated {
		s.Reclaim = q
	}
}

// evolveReadmitted folds that the pod is to be admitted again: its incarnation ends, and its source adds it again.
func (a *Actor) evolveReadmitted(e actors.Event) {
	if a.ofAPI() {
		return // a terminal phase is for good: its controller creates another pod
	}
	if s := a.state; s.GetEndedByNode() || s.GetRejected() {
		a.evolveRemoved(e, nil)
	}
}
