package mirror

import (
	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "mirror pods" }

// Recover takes the static pods and the UID of the Node.
func (d *Driver) Recover(r fold.Recovered) {
	r.Each(func(ref messages.Ref, a actors.Decider) {
		switch a := a.(type) {
		case *pod.Actor:
			if p := a.Pod().GetPod(); p != nil && p.GetApi() == nil && !a.Pod().GetOrphan() {
				d.Seed(p)
			}
			r.Pending(ref, func(rec *journaletv1.Record) { d.SeedPending(ref.ID, rec) })
		case *node.Actor:
			d.SeedNode(fold.ObservedNode(r, ref, a).GetUid())
		}
	})
}
