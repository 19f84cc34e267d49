package rotate

import (
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "log rotation" }

// Recover takes the containers that were observed last.
func (d *Driver) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *pod.Actor) {
		if last := a.Pod().GetObserved(); last != nil {
			d.Seed(last)
		}
		r.Pending(ref, d.Stored)
	})
}
