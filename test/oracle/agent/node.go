package agent

import (
	"fmt"

	"github.com/journalet/journalet/actors"
	decider "github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/manifest"
	"github.com/journalet/journalet/test/oracle/node"
)

// Node is the decider of admission.
type Node struct {
	actor *decider.Actor
	seq   uint64
	err   error
}

// NewNode makes the decider of a node on which nothing runs.
func NewNode(o node.Options) *Node {
	n := &Node{actor: decider.New()}
	n.seq++
	n.err = n.actor.Evolve(actors.Event{Seq: n.seq, Author: messages.Agent, Body: &journaletv1.Event{
		Kind: &journaletv1.Event_AgentStarted{AgentStarted: &journaletv1.AgentStarted{Config: &journaletv1.AgentConfig{
			NodeName: o.NodeName, NodeLabels: o.NodeLabels, MaxPods: uint32(o.Allocatable.Pods().Value()),
			Allocatable: &journaletv1.NodeCapacity{
				MilliCpu: o.Allocatable.Cpu().MilliValue(), MemoryBytes: o.Allocatable.Memory().Value(),
				EphemeralStorageBytes: o.Allocatable.StorageEphemeral().Value(),
			},
		}}},
	}})
	return n
}

// Ask puts a pod before the node, and gives the answer: "admitted", or the reason and the words of its rejection.
func (n *Node) Ask(p manifest.Parsed) (string, error) {
	n.seq++
	e := actors.Event{Seq: n.seq, Author: messages.Pod(string(p.Pod.UID)), Manifest: p.Pod, Body: &journaletv1.Event{
		Kind: &journaletv1.Event_AdmissionAsked{AdmissionAsked: &journaletv1.AdmissionAsked{
			Uid: string(p.Pod.UID), Namespace: p.Pod.Namespace, Name: p.Pod.Name, Digest: p.Digest, Demand: pod.Demand(p.Pod),
		}},
	}}
	if n.err == nil {
		n.err = n.actor.Evolve(e)
	}
	answer := "no answer"
	if n.err == nil {
		n.err = n.actor.Decide(actors.Input{Seq: n.seq, Events: []actors.Event{e}}, func(d *journaletv1.Event) error {
			if a := d.GetAdmissionDecided(); a.GetAdmitted() {
				answer = "admitted"
			} else if a != nil {
				answer = fmt.Sprintf("%s: %s", a.GetReason(), a.GetMessage())
			}
			return n.actor.Evolve(actors.Event{ID: fmt.Sprint("n", n.seq), Seq: n.seq, Author: messages.Node, Body: d})
		})
	}
	return answer, n.err
}
