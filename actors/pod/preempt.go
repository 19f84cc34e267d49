package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What the kubelet says of a pod that it ends so that another one fits (pkg/kubelet/preemption).
const (
	ReasonPreempting  = "Preempting"
	MessagePreempting = "Preempted in order to admit critical pod"

	messageDisruption = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// priority is a pod's priority; what its source leaves out is 0.
func priority(p *corev1.Pod) int32 {
	if p == nil || p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

var qosClasses = map[corev1.PodQOSClass]journaletv1.QosClass{
	corev1.PodQOSBestEffort: journaletv1.QosClass_QOS_CLASS_BEST_EFFORT,
	corev1.PodQOSBurstable:  journaletv1.QosClass_QOS_CLASS_BURSTABLE,
	corev1.PodQOSGuaranteed: journaletv1.QosClass_QOS_CLASS_GUARANTEED,
}

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

// disruption is the condition of a pod that was ended for another one.
func (a *Actor) disruption() []*journaletv1.Condition {
	if !a.state.GetPreempted() {
		return nil
	}
	return []*journaletv1.Condition{{
		Type: string(corev1.DisruptionTarget), Status: true, Reason: corev1.PodReasonTerminationByKubelet, Message: messageDisruption,
	}}
}
