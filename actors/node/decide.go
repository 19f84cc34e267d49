package node

import (
	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Decide answers the questions that can be answered now.
func (a *Actor) Decide(in actors.Input, emit actors.Emit) error {
	for _, e := range in.Events {
		var err error
		switch k := e.Body.GetKind().(type) {
		case *journaletv1.Event_AdmissionRequested:
			err = a.answer(e, k.AdmissionRequested, emit)
		case *journaletv1.Event_PodFinished:
			if err = a.next(emit); err == nil {
				err = a.release(emit)
			}
		case *journaletv1.Event_UidRequested:
			err = a.answerSource(k.UidRequested, emit)
		case *journaletv1.Event_UidWithdrawn:
			if err = a.grant(k.UidWithdrawn.GetUid(), emit); err == nil {
				err = a.disown(emit)
			}
		case *journaletv1.Event_OrphanFound, *journaletv1.Event_SourceSynced:
			err = a.disown(emit)
		case *journaletv1.Event_PodTerminated:
			err = a.release(emit)
		case *journaletv1.Event_AgentStarted:
			if err = a.release(emit); err == nil {
				err = a.disown(emit)
			}
		}
		if err != nil {
			return err
		}
		switch e.Body.GetKind().(type) {
		case *journaletv1.Event_AgentStarted, *journaletv1.Event_ResizeRequested, *journaletv1.Event_ResizeWithdrawn,
			*journaletv1.Event_PodTerminated, *journaletv1.Event_PodFinished:
			// What the node has, or who asks for it, may have changed.
			if err := a.decideResizes(emit); err != nil {
				return err
			}
		}
	}
	return nil
}

// answer decides on a new question: a pod that can never run here is rejected at once, one whose
// name is taken waits for the other one's end.
func (a *Actor) answer(e actors.Event, q *journaletv1.AdmissionRequested, emit actors.Emit) error {
	if r := a.never(e.Manifest, q.GetDemand()); r != nil {
		return emit(decided(q, r))
	}
	name := q.GetNamespace() + "/" + q.GetName()
	if holder := a.state.Names[name]; holder != "" {
		return emit(deferred(q, holder))
	}
	return a.admit(q, emit)
}

// next lets in the first of those that wait for a name that has become free. Only the names that
// finished pods held can have become free, and those are few: at most one an event.
func (a *Actor) next(emit actors.Emit) error {
	for _, name := range a.freed() {
		q := a.state.Waiting[name].GetRequests()[0]
		if err := a.admit(q, emit); err != nil {
			return err
		}
		// Where several sources name it, others may wait on, for another pod than before.
		for _, q := range a.state.Waiting[name].GetRequests() {
			if err := emit(deferred(q, a.state.Names[name])); err != nil {
				return err
			}
		}
	}
	return nil
}

func deferred(q *journaletv1.AdmissionRequested, holder string) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_AdmissionDeferred{
		AdmissionDeferred: &journaletv1.AdmissionDeferred{Uid: q.GetUid(), HolderUid: holder},
	}}
}

func decided(q *journaletv1.AdmissionRequested, r *rejection) *journaletv1.Event {
	d := &journaletv1.AdmissionDecided{Uid: q.GetUid(), Admitted: r == nil, Incarnation: q.GetIncarnation()}
	if r != nil {
		d.Reason, d.Message = r.reason, r.message
	}
	return &journaletv1.Event{Kind: &journaletv1.Event_AdmissionDecided{AdmissionDecided: d}}
}
