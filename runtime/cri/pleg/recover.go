package pleg

import (
	podactor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*PLEG) Name() string { return "pleg" }

// Recover takes the last observations of all pods, and the newest starts of the pods that the journal is uncertain
// about: a call has ended since the pod's last observation, and its effect must be observed once more.
func (p *PLEG) Recover(r fold.Recovered) {
	var seen []*journaletv1.PodObserved
	fold.EachOf(r, func(ref messages.Ref, a *podactor.Actor) {
		s := a.Pod()
		last, certain := s.GetObserved(), a.Observed()
		fold.PendingFacts(r, ref, func(e *journaletv1.Event) {
			if o := e.GetPodObserved(); o != nil {
				last = o
			}
			certain = certain && e.GetCallFinished() == nil
		})
		switch {
		case !certain:
			p.Expect(ref.ID)
			for name, c := range s.GetContainers() {
				p.RegisterStart(ref.ID, name, c.GetCurrent().GetIntentId())
			}
		case last != nil:
			seen = append(seen, last)
		}
		for id, call := range s.GetCalls() {
			p.requested(id, call.GetRequest())
		}
	})
	p.Seed(seen)
}

// Stored registers calls that create containers, and pods whose inspections are over.
func (p *PLEG) Stored(rec *journaletv1.Record) {
	if o := rec.GetFact().GetPodObserved(); o != nil {
		p.stored(o.GetUid())
	}
	for i, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_CallRequested:
			author := messages.RefOf(rec.GetActor())
			p.requested(messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), author, i), k.CallRequested)
		case *journaletv1.Event_PodForgotten:
			p.Forget(k.PodForgotten.GetUid())
		case *journaletv1.Event_PodTerminated:
			p.IgnoreEvents(k.PodTerminated.GetUid())
		}
	}
}

// stored takes that an observation of a pod is in the journal: who reads the pod's actor from now on, reads it with the
// observation.
func (p *PLEG) stored(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.pods[uid]; s != nil {
		s.awaited, s.sent = false, false
	}
}

// requested registers a call that creates a container.
func (p *PLEG) requested(intent string, req *journaletv1.CallRequested) {
	if k := req.GetStartContainer(); k != nil && k.GetPart() != journaletv1.StartPart_START_PART_START {
		p.RegisterStart(req.GetPodUid(), k.GetContainer(), intent)
	}
}
