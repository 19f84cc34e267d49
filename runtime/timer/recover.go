package timer

import (
	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "timers" }

// Recover takes the timers of all actors. Begin arms them.
func (d *Driver) Recover(r fold.Recovered) {
	r.Each(func(ref messages.Ref, a actors.Decider) {
		d.Seed(ref, a.Timers())
		r.Pending(ref, d.SeedPending)
	})
}
