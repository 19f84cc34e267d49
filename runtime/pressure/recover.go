package pressure

import (
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "pressure" }

// Recover takes the pressure that the node knows.
func (d *Driver) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *node.Actor) {
		d.Seed(a.Node().GetPressure())
		r.Pending(ref, d.SeedPending)
	})
}
