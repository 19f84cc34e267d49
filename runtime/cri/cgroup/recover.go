package cgroup

import (
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Recover takes the pods of the journal: their cgroups are not orphans, and each running pod must have its cgroup.
func (t *Tree) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *pod.Actor) {
		t.AddKnown(ref.ID)
		if p := a.Manifest(); p != nil && a.Pod().GetStage() < journaletv1.PodStage_POD_STAGE_TERMINATED {
			t.Seed(p)
		}
	})
}
