package messages

import (
	"github.com/journalet/journalet/messages/journaletv1"
)

// Audience tells which actors hear an event that author recorded, beside the author itself, which
// folds its own decisions when it takes them and never hears them again. It is the one table of who
// gets what. everyone is true for the events that every actor hears.
//
// Who hears an event is part of JournalFormat: a recorded step names the record that its author had handled before, and a
// journal in which an actor had heard more or less than it does now no longer folds.
//
// An event that concerns no actor (a status, an event for people, a timer) has no audience: drivers
// and observers alone take note of it.
func Audience(author Ref, e *journaletv1.Event) (hears []Ref, everyone bool) {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		return nil, true
	case *journaletv1.Event_TimerFired:
		return []Ref{author}, false
	case *journaletv1.Event_ManifestsRead:
		return []Ref{Source(k.ManifestsRead.GetSource())}, false
	case *journaletv1.Event_PodObserved:
		return []Ref{Pod(k.PodObserved.GetUid())}, false
	case *journaletv1.Event_ProbeResult:
		return []Ref{Pod(k.ProbeResult.GetUid())}, false
	case *journaletv1.Event_ReadinessGatesRead:
		return []Ref{Pod(k.ReadinessGatesRead.GetUid())}, false
	case *journaletv1.Event_CallFinished:
		return withRequester(k.CallFinished.GetRequester()), false
	case *journaletv1.Event_RuntimeHealthChanged:
		return []Ref{Runtime}, false

	case *journaletv1.Event_PodUpdated:
		return []Ref{Pod(k.PodUpdated.GetPod().GetUid())}, false
	case *journaletv1.Event_AdmissionRequested, *journaletv1.Event_ResizeRequested, *journaletv1.Event_ResizeWithdrawn,
		*journaletv1.Event_UidRequested, *journaletv1.Event_UidWithdrawn, *journaletv1.Event_SourceSynced, *journaletv1.Event_OrphanFound:
		return []Ref{Node}, false
	case *journaletv1.Event_UidGranted:
		return []Ref{Source(k.UidGranted.GetSource())}, false
	case *journaletv1.Event_UidDeferred:
		return []Ref{Source(k.UidDeferred.GetSource())}, false
	case *journaletv1.Event_OrphanConfirmed:
		return []Ref{Pod(k.OrphanConfirmed.GetUid())}, false
	case *journaletv1.Event_ImagePullRequested, *journaletv1.Event_ImagePullWithdrawn:
		return []Ref{Image}, false
	case *journaletv1.Event_CallRequested, *journaletv1.Event_CallWithdrawn:
		return []Ref{Runtime}, false
	case *journaletv1.Event_PodTerminated:
		return []Ref{Node}, false
	case *journaletv1.Event_PodFinished:
		return []Ref{Source(k.PodFinished.GetSource()), Node, Image}, false
	case *journaletv1.Event_AdmissionDecided:
		return []Ref{Pod(k.AdmissionDecided.GetUid())}, false
	case *journaletv1.Event_ResizeDecided:
		return []Ref{Pod(k.ResizeDecided.GetUid())}, false
	case *journaletv1.Event_AdmissionDeferred:
		return []Ref{Pod(k.AdmissionDeferred.GetUid())}, false
	case *journaletv1.Event_AdmissionPendingPreemption:
		return withVictims(k.AdmissionPendingPreemption.GetUid(), k.AdmissionPendingPreemption.GetVictims()), false
	case *journaletv1.Event_ResizePendingPreemption:
		return withVictims(k.ResizePendingPreemption.GetUid(), k.ResizePendingPreemption.GetVictims()), false
	case *journaletv1.Event_ImagePullDecided:
		return []Ref{Pod(k.ImagePullDecided.GetUid())}, false
	case *journaletv1.Event_CallDropped:
		if r, err := ParseRef(k.CallDropped.GetRequester()); err == nil {
			return []Ref{r}, false
		}
	}
	return nil, false
}

// withRequester is the audience of an outcome: the runtime actor, whose slot it frees, and who asked.
func withRequester(requester string) []Ref {
	if r, err := ParseRef(requester); err == nil && r != Runtime {
		return []Ref{Runtime, r}
	}
	return []Ref{Runtime}
}

// withVictims is a pod and those that end for it.
func withVictims(uid string, preempts []string) []Ref {
	all := []Ref{Pod(uid)}
	for _, other := range preempts {
		all = append(all, Pod(other))
	}
	return all
}

// Events lists what a record holds: one fact, or the decisions of a step.
func Events(rec *journaletv1.Record) []*journaletv1.Event {
	if fact := rec.GetFact(); fact != nil {
		return []*journaletv1.Event{fact}
	}
	return rec.GetStep().GetDecisions()
}
