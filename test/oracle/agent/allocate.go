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

// Books are the decider of admission, with what it has told pods of their resizes.
type Books struct {
	node *Node
	pods map[string]*booked
	// preempted counts the pods that ended for others.
	preempted int
}

type booked struct {
	has, wants manifest.Parsed
	waits      string
}

// NewBooks makes the books of a node on which nothing runs.
func NewBooks(o node.Options) *Books {
	return &Books{node: NewNode(o), pods: map[string]*booked{}}
}

// Add asks for a pod; false if it does not fit.
func (b *Books) Add(p manifest.Parsed) (bool, error) {
	answer, err := b.node.Ask(p)
	if answer == "admitted" {
		b.pods[string(p.Pod.UID)] = &booked{has: p, wants: p}
	}
	return answer == "admitted", err
}

// Resize gives a pod another manifest: as the pod's decider does, it asks, or takes its question back.
func (b *Books) Resize(p manifest.Parsed) error {
	k := b.pods[string(p.Pod.UID)]
	k.wants = p
	if resources.Same(k.has.Pod, p.Pod) {
		k.waits = ""
		return b.tell(&journaletv1.Event{Kind: &journaletv1.Event_ResizeWithdrawn{ResizeWithdrawn: &journaletv1.ResizeWithdrawn{Uid: string(p.Pod.UID)}}})
	}
	q := &journaletv1.ResizeRequested{Uid: string(p.Pod.UID), Digest: p.Digest, Demand: pod.Demand(p.Pod), Guaranteed: pod.QOS(p.Pod) == "Guaranteed"}
	if p.Pod.Spec.Priority != nil {
		q.Priority = *p.Pod.Spec.Priority
	}
	return b.tell(&journaletv1.Event{Kind: &journaletv1.Event_ResizeRequested{ResizeRequested: q}})
}

// End ends a pod.
func (b *Books) End(uid string) error {
	delete(b.pods, uid)
	return b.tell(&journaletv1.Event{Kind: &journaletv1.Event_PodTerminated{PodTerminated: &journaletv1.PodTerminated{Uid: uid}}})
}

// tell hands the node one event, keeps what it answers, and ends who has to end for another pod.
func (b *Books) tell(body *journaletv1.Event) error {
	n := b.node
	n.seq++
	e := actors.Event{Seq: n.seq, Time: never.AddDate(0, 0, int(n.seq)), Author: messages.Agent, Body: body}
	if err := n.actor.Evolve(e); err != nil {
		return err
	}
	var ends []string
	err := n.actor.Decide(actors.Input{Seq: n.seq, Time: e.Time, Events: []actors.Event{e}}, func(d *journaletv1.Event) error {
		if h := d.GetResizePendingPreemption(); h != nil {
			b.pods[h.GetUid()].waits = h.GetMessage()
			ends = append(ends, h.GetVictims()...)
		}
		if r := d.GetResizeDecided(); r != nil {
			k := b.pods[r.GetUid()]
			k.waits = r.GetMessage()
			if r.GetAllocated() {
				k.has = k.wants
			}
		}
		return n.actor.Evolve(actors.Event{ID: fmt.Sprint("n", n.seq), Seq: n.seq, Time: e.Time, Author: messages.Node, Body: d})
	})
	b.preempted += len(ends)
	for _, uid := range ends {
		if err == nil {
			err = b.End(uid)
		}
	}
	return err
}

// Preempted is how many pods have ended for others.
func (b *Books) Preempted() int { return b.preempted }

// Has is what a pod's only container requests, and why its resize waits.
func (b *Books) Has(uid string) string {
	k := b.pods[uid]
	if k == nil {
		return "gone"
	}
	r := resources.Of(&k.has.Pod.Spec.Containers[0].Resources)
	text := fmt.Sprintf("%dm, %d bytes", r.GetCpuRequestMillis(), r.GetMemoryRequestBytes())
	if k.waits != "" {
		text += "; Deferred: " + k.waits
	}
	return text
}
