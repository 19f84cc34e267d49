package storage

import (
	podactor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "ephemeral storage" }

// Recover takes the pods that run.
func (d *Driver) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *podactor.Actor) {
		if s := a.Pod(); s.GetStage() == journaletv1.PodStage_POD_STAGE_RUNNING && s.GetUsedRuntime() {
			d.Seed(ref.ID, s.GetPod().GetDigest())
		}
		r.Pending(ref, d.SeedPending)
	})
}
