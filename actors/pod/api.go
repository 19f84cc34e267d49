package pod

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A pod of the API server ends when it is deleted there. When nothing of it runs on the node, and the API server has
// its terminal phase, the pod has its object deleted. Its source ends the actor when the object is gone (ADR 051).

// ofAPI reports whether the pod is one of the API server.
func (a *Actor) ofAPI() bool { return a.state.GetPod().GetApi() != nil }

// deleted reports whether the pod's object is being deleted.
func (a *Actor) deleted() bool { return a.state.GetPod().GetApi().GetDeleted() }

// ends reports whether the pod is to leave nothing on the node.
func (a *Actor) ends() bool { return a.state.GetRemoved() || a.deleted() }

// KeepsStatus reports whether the pod had ended at the API server before it was added here: it never runs, and its
// status is what the API server has.
func (a *Actor) KeepsStatus() bool {
	s := a.state
	return s.GetPod().GetApi().GetTerminalPhase() != journaletv1.PodPhase_POD_PHASE_UNSPECIFIED &&
		!s.GetAdmissionRequested() && s.GetStage() >= terminated
}

// evolveAPIAdded folds what a new pod of the API server is when it is added. A pod that has ended runs nothing; a
// deleted pod is never admitted.
func (a *Actor) evolveAPIAdded(e actors.Event) {
	switch api := a.state.GetPod().GetApi(); {
	case api.GetTerminalPhase() != journaletv1.PodPhase_POD_PHASE_UNSPECIFIED:
		a.state.Phase = api.GetTerminalPhase()
		a.state.TerminatingAt = timestamppb.New(e.Time)
		a.enter(terminated, e.Time)
	case api.GetDeleted():
		a.evolveDeleted(e, defaultGrace)
	}
}

// evolveAPIUpdated folds an update of a pod of the API server. It is never another incarnation: the UID is the same,
// and the API server accepts no change that would make it one.
func (a *Actor) evolveAPIUpdated(e actors.Event, u *journaletv1.PodUpdated) {
	s := a.state
	if s.GetRemoved() {
		return // forced: the object is gone
	}
	before := a.grace()
	a.resetChangedImages(e.Manifest)
	a.evolveDesired(u, e.Manifest)
	s.LeftAlone = s.GetLeftAlone() && a.unsupported() != "" // a later version may carry it out
	switch {
	case a.deleted():
		a.evolveDeleted(e, before)
	case a.state.GetPod().GetApi().GetTerminalPhase() == journaletv1.PodPhase_POD_PHASE_UNSPECIFIED:
	case s.GetStage() == admitting, s.GetStage() == runningPod:
		// Another client has written the phase, or this agent has, and the end of its journal was lost.
		s.Reason, s.Message = "", ""
		a.enter(terminating, e.Time)
	}
}

// evolveDeleted folds that the object is being deleted. The grace period counts from now, or from when the pod began to
// end for another reason: then it only shrinks.
func (a *Actor) evolveDeleted(e actors.Event, before time.Duration) {
	s := a.state
	grace := graceOf(max(1, s.GetPod().GetApi().GetDeletionGraceSeconds()))
	if s.GetStage() == terminating {
		grace = min(grace, before)
	}
	s.Grace = durationpb.New(grace)
	switch s.GetStage() {
	case admitting:
		s.Reason, s.Message = "", "" // why it waited
		a.enter(terminating, e.Time)
	case runningPod:
		a.enter(terminating, e.Time)
	case terminated:
		a.enter(cleaning, e.Time)
	}
}

// evolveAPIDeleteFinished folds the outcome of the deletion. A refused one is repeated after a while.
func (a *Actor) evolveAPIDeleteFinished(e actors.Event, k *journaletv1.ApiDeleteFinished) {
	s := a.state
	s.ApiDeleteRequested = false
	if k.GetMessage() == "" {
		s.ApiDeleted, s.CleanFailures, s.CleanFailedAt = true, 0, nil
		return
	}
	s.CleanFailures++
	s.CleanFailedAt = timestamppb.New(e.Time)
}

// finishIfGone finishes a pod once none of its objects is left. The object of a deleted pod, which deleteObject has
// requested, goes first: then the source removes the pod. Finalizers may hold it for long.
func (d *step) finishIfGone() {
	if !d.hasObject() {
		d.finish()
	}
}

// hasObject reports whether the API server may have an object of the pod that this agent is to delete.
func (a *Actor) hasObject() bool {
	return a.ofAPI() && !a.state.GetRemoved() && !a.state.GetOrphan()
}

// deleteObject has the object deleted as soon as nothing of the pod runs, no sandbox holds its network, no CSI driver
// or NFS server has a volume of it, and the API server has its terminal phase. What is dead is removed afterwards: a
// deletion does not wait for the removals of all pods that were deleted at the same time.
func (d *step) deleteObject() {
	s := d.state
	terminal := s.GetPod().GetApi().GetTerminalPhase() != journaletv1.PodPhase_POD_PHASE_UNSPECIFIED
	if !d.hasObject() || !terminal || s.GetApiDeleteRequested() || s.GetApiDeleted() || d.tearDownWait() > 0 ||
		d.mayRunUnseen() || d.hasApart() || d.AnyAlive() || d.calling(removesNothing) ||
		slices.ContainsFunc(s.GetObserved().GetSandboxes(), d.holdsNetwork) {
		return
	}
	d.decide(&journaletv1.ApiDeleteRequested{
		Uid: d.self.ID, Namespace: s.GetPod().GetNamespace(), Name: s.GetPod().GetName(),
	})
}

// Unseen reports whether containers of the pod may run that the actor has not seen: no inspection of this run of the
// agent has shown the pod, and no container of it is known. A call may have found all that is known of it, such as a
// sandbox from before the journal was lost, which kept a new sandbox from being created.
func (a *Actor) Unseen() bool {
	o := a.state.GetObserved()
	return o == nil || o.GetObservedAt() == nil && len(o.GetContainers()) == 0
}

// mayRunUnseen reports whether nothing is known of the pod at the runtime: it has no sandbox by this journal, and no
// inspection has shown anything of it. After a lost journal it may run all the same. A clean-up finds that out: it
// fails while a container runs.
func (a *Actor) mayRunUnseen() bool {
	s := a.state
	return s.GetSandboxId() == "" && len(s.GetObserved().GetSandboxes())+len(s.GetObserved().GetContainers()) == 0 &&
		!s.GetCleanedAll()
}

// removesNothing matches calls after which a part of the pod may still run. A hook that was withdrawn holds up nothing.
func removesNothing(r *journaletv1.CallRequested) bool {
	return isNoHook(r) && r.GetRemoveSandbox() == nil && r.GetRemoveContainer() == nil && r.GetCleanPod() == nil
}

// shortenGrace clears the timer of the grace period when the pod was deleted again with a shorter one, or by force.
func (d *step) shortenGrace() {
	for _, e := range d.in.Events {
		if e.Body.GetPodUpdated() != nil && d.ends() {
			d.clearTimer(graceTimer)
			return
		}
	}
}

// endUnknown gives a terminated state to containers of a pod that has ended, as far as they may have run: the API
// server and controllers expect one of each.
func endUnknown(spec *corev1.PodSpec, st *corev1.PodStatus) {
	if initializedOnce(spec, st) {
		endAll(st.ContainerStatuses)
	}
	for i := len(st.InitContainerStatuses) - 1; i >= 0; i-- {
		c := &st.InitContainerStatuses[i]
		if i == 0 || c.State.Waiting == nil || c.LastTerminationState.Terminated != nil {
			endAll(st.InitContainerStatuses[:i+1])
			break
		}
	}
}

func endAll(list []corev1.ContainerStatus) {
	for i := range list {
		if c := &list[i]; c.State.Terminated == nil {
			c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: reasonStatusUnknown, Message: messageStatusUnknown, ExitCode: exitStatusUnknown,
			}}
			c.Ready, c.Started = false, ptr.To(false)
		}
	}
}

// initializedOnce reports whether main containers may have run.
func initializedOnce(spec *corev1.PodSpec, st *corev1.PodStatus) bool {
	for i := range st.ContainerStatuses {
		if c := &st.ContainerStatuses[i]; c.State.Waiting == nil || c.LastTerminationState.Terminated != nil {
			return true
		}
	}
	inits := len(st.InitContainerStatuses)
	if inits == 0 {
		return true
	}
	last := &st.InitContainerStatuses[inits-1]
	if isSidecar(&spec.InitContainers[inits-1]) {
		return last.State.Running != nil && last.Started != nil && *last.Started
	}
	t := last.LastTerminationState.Terminated
	return last.State.Terminated != nil && last.State.Terminated.ExitCode == 0 || t != nil && t.ExitCode == 0
}
