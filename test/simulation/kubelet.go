package simulation

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
)

// InAKubeletsPlace returns the plan of a node like Exclusive's. The journal is always lost once, and the files of a
// kubelet are there: the kubelet had given to pods what they have (ADR 070).
func InAKubeletsPlace(seed uint64) *Plan {
	p := Exclusive(seed)
	r := stream(seed, "plan of a kubelet")
	p.config.managed.kubelet = true
	for i := range p.Ops {
		if p.Ops[i].Kind == "the journal is lost" {
			p.Ops[i].Kind = "a kubelet was here"
		}
	}
	p.Ops = append(p.Ops, Op{
		At: between(r, time.Minute, p.end), Kind: "a kubelet was here",
		lasts: between(r, time.Millisecond, pick(r, 10*time.Second, time.Minute)),
	})
	p.inOrder()
	return p
}

// kubelets is what happens to such a node, by kind.
var kubelets = map[string]func(*sim, Op){"a kubelet was here": (*sim).takeKubeletsPlace}

// takeKubeletsPlace starts the agent with an empty journal beside pods that run as a kubelet has left them, and beside
// files that have what it had given to them.
func (s *sim) takeKubeletsPlace(o Op) {
	if s.config.syncs == 0 || s.agent == nil {
		return
	}
	left := &journaletv1.KubeletState{Pods: map[string]*journaletv1.KubeletPod{}}
	for uid, p := range s.agent.cells.Decider(messages.Node).(*node.Actor).Node().GetPods() {
		if !p.GetTerminated() && len(p.GetExclusive())+len(p.GetDevices()) > 0 {
			copied := proto.CloneOf(p)
			left.Pods[uid] = &journaletv1.KubeletPod{Exclusive: copied.GetExclusive(), Devices: copied.GetDevices()}
			for _, d := range left.Pods[uid].GetDevices() {
				d.PreStart, d.Answer = false, nil
			}
		}
	}
	s.loseJournal(o)
	s.left = left
	for _, pod := range s.world.objects {
		for _, x := range pod.sandboxes {
			x.ofKubelet = true
		}
		for _, c := range pod.containers {
			c.ofKubelet = true
		}
	}
}

// kubeletState returns what a kubelet has left; nil but for a start with an empty journal.
func (s *sim) kubeletState() *journaletv1.KubeletState {
	if len(s.journal.stored) > 0 || len(s.left.GetPods()) == 0 {
		return nil
	}
	return proto.CloneOf(s.left)
}

// owner says which objects of the runtime are the agent's.
func (s *sim) owner() cri.Owner {
	return cri.Owner{AgentID: agentID, Kubelet: s.config.managed != nil && s.config.managed.kubelet}
}
