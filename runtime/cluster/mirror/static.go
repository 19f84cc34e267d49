package mirror

import (
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
)

// StaticOf returns a static pod that is to have a mirror pod: an admitted pod that is not removed. While a removed pod
// terminates, its mirror pod stays, as with the kubelet. The errors are ErrNoPod and ErrUndecided.
func StaticOf(actor *pod.Actor, on pod.Node) (Static, error) {
	s := actor.Pod()
	switch {
	case s.GetPod() == nil, s.GetOrphan(), s.GetStage() == journaletv1.PodStage_POD_STAGE_UNSPECIFIED,
		s.GetPod().GetApi() != nil, s.GetRejected():
	case s.GetStage() == journaletv1.PodStage_POD_STAGE_ADMITTING && !s.GetRemoved(),
		s.GetStage() < journaletv1.PodStage_POD_STAGE_TERMINATED && s.GetRemoved():
		return Static{}, ErrUndecided
	case s.GetStage() <= journaletv1.PodStage_POD_STAGE_TERMINATED && !s.GetRemoved():
		return Static{Pod: actor.View(on), Digest: s.GetPod().GetDigest()}, nil
	}
	return Static{}, ErrNoPod
}
