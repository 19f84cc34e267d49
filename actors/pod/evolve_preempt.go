package pod

import (
	"slices"
	"strings"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Reason and messages of a victim of preemption (pkg/kubelet/preemption).
const (
	ReasonPreempting  = "Preempting"
	MessagePreempting = "Preempted in order to admit critical pod"

	messageDisruption = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// evolvePendingPreemption folds that victims end for a pod that is to be admitted. If it is this pod, no other pod has
// its name any more.
func (a *Actor) evolvePendingPreemption(e actors.Event, k *journaletv1.AdmissionPendingPreemption) {
	if k.GetUid() == a.self.ID {
		a.state.HolderUid = ""
	}
	a.evolveVictim(e, k.GetVictims(), k.GetUid(), k.GetFullName())
}

// evolveVictim starts the termination of the pod if it is among the victims.
func (a *Actor) evolveVictim(e actors.Event, preempts []string, uid, fullName string) {
	s := a.state
	if s.GetStage() != runningPod || !slices.Contains(preempts, a.self.ID) {
		return
	}
	a.enter(terminating, e.Time)
	s.Fails, s.Preempted = true, true
	s.Reason, s.Message = ReasonPreempting, MessagePreempting
	namespace, name, _ := strings.Cut(fullName, "/")
	s.PreemptedFor = &journaletv1.PodRef{Uid: uid, Namespace: namespace, Name: name}
}
