package fold

import (
	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Recovered is what a start has recovered of the actors: their states, and the records that they have received and not
// handled. Drivers take from it what they need not learn again. They must only read.
type Recovered interface {
	// Each calls do for every actor's decider, sorted by kind and id.
	Each(do func(messages.Ref, actors.Decider))
	// Pending calls do for the records that an actor has received but not handled yet, in order. They are not in its
	// state, and it handles them as soon as it runs.
	Pending(ref messages.Ref, do func(*journaletv1.Record))
}

// EachOf calls do for every actor of one kind, sorted by id.
func EachOf[A actors.Decider](r Recovered, do func(messages.Ref, A)) {
	r.Each(func(ref messages.Ref, d actors.Decider) {
		if a, ok := d.(A); ok {
			do(ref, a)
		}
	})
}

// ObservedNode returns what was observed last of the Node, nil for nothing.
func ObservedNode(r Recovered, ref messages.Ref, a *node.Actor) *journaletv1.NodeObserved {
	last := a.Node().GetNode()
	PendingFacts(r, ref, func(e *journaletv1.Event) {
		if o := e.GetNodeObserved(); o != nil && o.GetFailure() == "" {
			last = o
		}
	})
	return last
}

// PendingFacts calls do for the facts among the records that an actor has not handled yet.
func PendingFacts(r Recovered, ref messages.Ref, do func(*journaletv1.Event)) {
	r.Pending(ref, func(rec *journaletv1.Record) {
		if fact := rec.GetFact(); fact != nil {
			do(fact)
		}
	})
}
