package agent

import (
	"fmt"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/node"
)

// Allocations is the node's decider, with its decisions on pods' resizes.
type Allocations struct {
	node *Node
	pods map[string]*allocation
	// preempted counts the victims.
	preempted int
}

// allocation is a pod's allocated and desired manifest, and why its resize waits.
type allocation struct {
	allocated, desired manifest.Parsed
	waits              string
}

// NewAllocations returns the decider of an empty node.
func NewAllocations(o node.Options) *Allocations {
	return &Allocations{node: NewNode(o), pods: map[string]*allocation{}}
}

// Add requests the admission of a pod, and returns false if it does not fit.
func (b *Allocations) Add(p manifest.Parsed) (bool, error) {
	verdict, err := b.node.Admit(p)
	if verdict == "admitted" {
		b.pods[string(p.Pod.UID)] = &allocation{allocated: p, desired: p}
	}
	return verdict == "admitted", err
}

// Resize updates a pod's manifest: as the pod's decider does, it requests a resize, or withdraws the request.
func (b *Allocations) Resize(p manifest.Parsed) error {
	k := b.pods[string(p.Pod.UID)]
	k.desired = p
	if resources.Same(k.allocated.Pod, p.Pod) {
		k.waits = ""
		return b.record(&journaletv1.Event{Kind: &journaletv1.Event_ResizeWithdrawn{
			ResizeWithdrawn: &journaletv1.ResizeWithdrawn{Uid: string(p.Pod.UID)},
		}})
	}
	q := &journaletv1.ResizeRequested{Uid: string(p.Pod.UID), Digest: p.Digest, Demand: pod.Demand(p.Pod),
		Guaranteed: pod.QOS(p.Pod) == "Guaranteed"}
	if p.Pod.Spec.Priority != nil {
		q.Priority = *p.Pod.Spec.Priority
	}
	return b.record(&journaletv1.Event{Kind: &journaletv1.Event_ResizeRequested{ResizeRequested: q}})
}

// End ends a pod.
func (b *Allocations) End(uid string) error {
	delete(b.pods, uid)
	return b.record(&journaletv1.Event{Kind: &journaletv1.Event_PodTerminated{
		PodTerminated: &journaletv1.PodTerminated{Uid: uid},
	}})
}

// record gives the node one event, keeps its decisions, and ends the victims.
func (b *Allocations) record(body *journaletv1.Event) error {
	n := b.node
	n.seq++
	e := actors.Event{Seq: n.seq, Time: never.AddDate(0, 0, int(n.seq)), Author: messages.Agent, Body: body}
	if err := n.actor.Evolve(e); err != nil {
		return err
	}
	var ends []string
	err := actors.Decide(n.actor, actors.Input{Seq: n.seq, Time: e.Time, Events: []actors.Event{e}},
		func(d *journaletv1.Event) error {
			if h := d.GetResizePendingPreemption(); h != nil {
				b.pods[h.GetUid()].waits = h.GetMessage()
				ends = append(ends, h.GetVictims()...)
			}
			if r := d.GetResizeDecided(); r != nil {
				k := b.pods[r.GetUid()]
				k.waits = r.GetMessage()
				if r.GetAllocated() {
					k.allocated = k.desired
				}
			}
			return n.actor.Evolve(
				actors.Event{ID: fmt.Sprint("n", n.seq), Seq: n.seq, Time: e.Time, Author: messages.Node, Body: d})
		})
	b.preempted += len(ends)
	for _, uid := range ends {
		if err == nil {
			err = b.End(uid)
		}
	}
	return err
}

// Preempted returns how many victims have ended.
func (b *Allocations) Preempted() int { return b.preempted }

// Has describes what a pod's only container is allocated, and why its resize waits.
func (b *Allocations) Has(uid string) string {
	k := b.pods[uid]
	if k == nil {
		return "gone"
	}
	r := resources.Of(&k.allocated.Pod.Spec.Containers[0].Resources)
	text := fmt.Sprintf("%dm, %d bytes", r.GetCpuRequestMillis(), r.GetMemoryRequestBytes())
	if k.waits != "" {
		text += "; Deferred: " + k.waits
	}
	return text
}
