package gate

import (
	podactor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "readiness gates" }

// Recover takes the readiness gates of all pods and their last conditions.
func (d *Driver) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *podactor.Actor) {
		types, conditions := a.Gates()
		d.Seed(ref.ID, types, a.Pod().GetPod().GetApi() != nil, conditions)
		fold.PendingFacts(r, ref, func(e *journaletv1.Event) {
			if read := e.GetReadinessGatesRead(); read != nil {
				d.SeedPending(read)
			}
		})
	})
}
