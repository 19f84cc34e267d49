package calls

import (
	"github.com/journalet/journalet/actors/dispatch"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Executor) Name() string { return "calls" }

// Recover takes the calls that were dispatched and have no outcome: what they did is in doubt.
func (x *Executor) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *dispatch.Actor) {
		x.Seed(a.Runtime().GetCalls())
		r.Pending(ref, x.Stored)
	})
}
