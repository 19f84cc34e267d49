package shutdown

import (
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "shutdown" }

// Recover takes the shutdown that was recorded last. One of an earlier boot is over.
func (d *Driver) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *node.Actor) {
		active, complete := a.ShuttingDown(d.o.BootID)
		fold.PendingFacts(r, ref, func(e *journaletv1.Event) {
			if s := e.GetShutdownSignaled(); s != nil {
				active, complete = s.GetActive(), false
			}
		})
		d.Seed(active, complete)
	})
}
