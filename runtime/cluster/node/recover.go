package node

import (
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "Node" }

// Recover takes what was recorded of the Node and decided for it.
func (d *Driver) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *node.Actor) {
		active, _ := a.ShuttingDown(d.opts.BootID)
		fold.PendingFacts(r, ref, func(e *journaletv1.Event) {
			if s := e.GetShutdownSignaled(); s != nil {
				active = s.GetActive()
			}
		})
		d.Seed(fold.ObservedNode(r, ref, a), active)
		d.SeedPressure(a.Node().GetPressure().GetConditions())
		d.SeedDevices(a.Node().GetDevices())
	})
}
