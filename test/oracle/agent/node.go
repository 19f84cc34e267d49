package agent

import (
	"fmt"
	"slices"

	"github.com/journalet/journalet/actors"
	decider "github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/node"
)

// Node is the node's decider, which decides on admission.
type Node struct {
	actor *decider.Actor
	seq   uint64
	err   error
	names map[string]string // by UID
}

// NewNode returns the decider of an empty node.
func NewNode(o node.Options) *Node {
	n := &Node{actor: decider.New(), names: map[string]string{}}
	n.seq++
	n.err = n.actor.Evolve(actors.Event{Seq: n.seq, Author: messages.Agent, Body: &journaletv1.Event{
		Kind: &journaletv1.Event_AgentStarted{AgentStarted: &journaletv1.AgentStarted{Config: &journaletv1.AgentConfig{
			NodeName: o.NodeName, NodeLabels: o.NodeLabels, MaxPods: uint32(o.Allocatable.Pods().Value()),
			Sources:              []string{messages.APISource, messages.FileSource},
			AllowedUnsafeSysctls: o.AllowedUnsafeSysctls,
			// The kubelet's side reads the machine's, which has every safe sysctl from this version on.
			Kernel: &journaletv1.KernelVersion{Major: 4, Minor: 15},
			Allocatable: &journaletv1.NodeCapacity{
				MilliCpu: o.Allocatable.Cpu().MilliValue(), MemoryBytes: o.Allocatable.Memory().Value(),
				EphemeralStorageBytes: o.Allocatable.StorageEphemeral().Value(),
			},
		}}},
	}})
	return n
}

// AdmitPreempting requests the admission of a pod, and ends its victims at once. It returns the victims with their
// reason and message, sorted.
func (n *Node) AdmitPreempting(p manifest.Parsed) (admitted bool, ended []string, err error) {
	n.names[string(p.Pod.UID)] = p.Pod.Name
	err = n.admit(p, func(d *journaletv1.Event) (follow []actors.Event) {
		admitted = admitted || d.GetAdmissionDecided().GetAdmitted()
		for _, uid := range d.GetAdmissionPendingPreemption().GetVictims() {
			ended = append(ended, fmt.Sprintf("%s: %s: %s", n.names[uid], pod.ReasonPreempting, pod.MessagePreempting))
			follow = append(follow, actors.Event{Author: messages.Pod(uid), Body: &journaletv1.Event{
				Kind: &journaletv1.Event_PodTerminated{PodTerminated: &journaletv1.PodTerminated{Uid: uid}},
			}})
		}
		return follow
	})
	slices.Sort(ended)
	return admitted, ended, err
}

// Admit requests the admission of a pod. It returns "admitted", or the reason and message of the rejection.
func (n *Node) Admit(p manifest.Parsed) (string, error) {
	verdict := "no decision"
	err := n.admit(p, func(d *journaletv1.Event) []actors.Event {
		if a := d.GetAdmissionDecided(); a.GetAdmitted() {
			verdict = "admitted"
		} else if a != nil {
			verdict = fmt.Sprintf("%s: %s", a.GetReason(), a.GetMessage())
		}
		return nil
	})
	return verdict, err
}

// admit requests the admission of a pod, and takes what the node decides to what follows from it, until nothing does.
// A request to read the Node is answered with a failure: the kubelet's side has no API server, either.
func (n *Node) admit(p manifest.Parsed, decided func(*journaletv1.Event) []actors.Event) error {
	events := []actors.Event{{Author: messages.Pod(string(p.Pod.UID)), Manifest: p.Pod, Body: &journaletv1.Event{
		Kind: &journaletv1.Event_AdmissionRequested{AdmissionRequested: request(p)},
	}}}
	for len(events) > 0 && n.err == nil {
		e := events[0]
		events = events[1:]
		n.seq++
		e.Seq = n.seq
		if n.err = n.actor.Evolve(e); n.err != nil {
			break
		}
		n.err = actors.Decide(n.actor, actors.Input{Seq: n.seq, Events: []actors.Event{e}}, func(d *journaletv1.Event) error {
			if read := d.GetNodeReadRequested(); read != nil {
				events = append(events, actors.Event{Author: messages.Node, Manifest: p.Pod, Body: messages.NewEvent(
					&journaletv1.NodeObserved{RequestId: read.GetRequestId(), Failure: "no API server"})})
			}
			events = append(events, decided(d)...)
			return n.actor.Evolve(actors.Event{ID: fmt.Sprint("n", n.seq), Seq: n.seq, Author: messages.Node, Body: d})
		})
	}
	return n.err
}

func request(p manifest.Parsed) *journaletv1.AdmissionRequested {
	ref := &journaletv1.PodRef{
		Uid: string(p.Pod.UID), Namespace: p.Pod.Namespace, Name: p.Pod.Name, Digest: p.Digest,
	}
	if p.Pod.Annotations[manifest.ConfigSourceAnnotation] == messages.APISource {
		ref.Api = &journaletv1.ApiPod{}
	}
	return pod.AdmissionRequest(ref, p.Pod)
}
