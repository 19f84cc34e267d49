package pod

import (
	"slices"
	"strings"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What the kubelet says of a pod that it ends so that another one fits (pkg/kubelet/preemption).
const (
	ReasonPreempting  = "Preempting"
	MessagePreempting = "Preempted in order to admit critical pod"

	messageDisruption = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// evolveHeld takes up that pods end for one that is to be admitted. That one has its name; one that ends already goes on as it
// does.
func (a *Actor) evolveHeld(e actors.Event, k *journaletv1.AdmissionPendingPreemption) {
	if k.GetUid() == a.self.ID {
		a.state.HolderUid = ""
	}
	a.evolvePreempts(e, k.GetVictims(), k.GetUid(), k.GetFullName())
}

// evolvePreempts begins the pod's end if it is among those that make room for another one.
func (a *Actor) evolvePreempts(e actors.Event, preempts []string, uid, fullName string) {
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
