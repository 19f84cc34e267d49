package probe

import (
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "probes" }

// Recover takes the probes of all pods and their last results.
func (d *Driver) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *pod.Actor) {
		for _, p := range a.Probed() {
			d.Seed(ref.ID, p.Set, p.Results)
		}
		fold.PendingFacts(r, ref, func(e *journaletv1.Event) {
			if result := e.GetProbeResult(); result != nil {
				d.SeedPending(result)
			}
		})
	})
}
