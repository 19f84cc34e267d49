package events

import (
	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/dispatch"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "events" }

// Recover takes what the events of later records are derived from: pods, calls under way, the Node, the runtime's
// health.
func (d *Driver) Recover(r fold.Recovered) {
	last := uint64(0)
	if d.opts.Last != nil {
		last = d.opts.Last()
	}
	r.Each(func(ref messages.Ref, a actors.Decider) {
		switch a := a.(type) {
		case *dispatch.Actor:
			d.SeedHealth(a.Runtime().GetHealth())
		case *pod.Actor:
			if s := a.Pod(); s.GetPod() != nil && !s.GetOrphan() {
				d.Seed(s.GetPod(), s.GetCalls())
			}
		case *node.Actor:
			d.SeedNode(fold.ObservedNode(r, ref, a).GetUid(), a.Node().GetBootId(), last)
		}
	})
}
