package podstatus

import (
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "status of pods" }

// Recover takes the deletions of pods that were requested and have no outcome, and the addresses of the Node.
func (d *Driver) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *node.Actor) {
		d.hostIPs, _ = node.HostIPs(fold.ObservedNode(r, ref, a))
	})
	fold.EachOf(r, func(ref messages.Ref, a *pod.Actor) {
		s := a.Pod()
		p := s.GetPod()
		deletes := p.GetApi() != nil && !s.GetOrphan() && s.GetApiDeleteRequested() && !s.GetApiDeleted()
		fold.PendingFacts(r, ref, func(e *journaletv1.Event) { deletes = deletes && e.GetApiDeleteFinished() == nil })
		if deletes {
			d.Seed(&journaletv1.ApiDeleteRequested{Uid: p.GetUid(), Namespace: p.GetNamespace(), Name: p.GetName()})
		}
	})
}
