package podstatus

import (
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
)

// DesiredOf returns what the API server is to have of a pod; false: nothing. It returns nothing for a pod without an
// admission, unless the pod waits for its admission, and for a pod that keeps the status that the API server has.
func DesiredOf(actor *pod.Actor, on pod.Node) (Desired, bool) {
	s := actor.Pod()
	switch {
	case s.GetPod() == nil, s.GetOrphan(), s.GetStage() == journaletv1.PodStage_POD_STAGE_UNSPECIFIED,
		s.GetStage() == journaletv1.PodStage_POD_STAGE_ADMITTING && s.GetReason() == "", actor.KeepsStatus():
		return Desired{}, false
	}
	return Desired{
		View: actor.View(on), Static: s.GetPod().GetApi() == nil, Unseen: actor.Unseen(),
		// After a lost journal, a pod that was rejected or preempted before it was inspected may run.
		MayRun: s.GetStage() < journaletv1.PodStage_POD_STAGE_TERMINATED || actor.AnyAlive(),
	}, true
}
