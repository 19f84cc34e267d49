package messages

import (
	"github.com/journalet/journalet/messages/journaletv1"
)

// Audience returns the actors that receive an event of author; everyone is true for an event that every actor receives.
// An author folds its own decisions when it takes them, and receives them only if it is named here (a timer).
//
// The audience of an event is part of JournalFormat: a recorded step names the record that its author handled before
// (ADR 001), so a journal does not fold with another audience.
//
// An event without an audience (a status, a timer that was set) is for drivers and observers alone.
func Audience(author Ref, e *journaletv1.Event) (audience []Ref, everyone bool) {
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
	case *journaletv1.Event_ObjectsRead:
		return []Ref{Pod(k.ObjectsRead.GetUid())}, false
	case *journaletv1.Event_VolumesLost:
		return []Ref{Pod(k.VolumesLost.GetUid())}, false
	case *journaletv1.Event_ClaimHealthObserved:
		return []Ref{Pod(k.ClaimHealthObserved.GetUid())}, false
	case *journaletv1.Event_PodDirectoryFound:
		return []Ref{Pod(k.PodDirectoryFound.GetUid())}, false
	case *journaletv1.Event_PodCgroupLost:
		return []Ref{Pod(k.PodCgroupLost.GetUid())}, false
	case *journaletv1.Event_StorageExceeded:
		return []Ref{Pod(k.StorageExceeded.GetUid())}, false
	case *journaletv1.Event_CallFinished:
		return withRequester(k.CallFinished.GetRequester()), false
	case *journaletv1.Event_RuntimeHealthChanged:
		return []Ref{Runtime}, false
	case *journaletv1.Event_ImagesObserved, *journaletv1.Event_ImageFilesystemFull,
		*journaletv1.Event_OperatorPullRequested, *journaletv1.Event_ImageRemovalRequested:
		return []Ref{Image}, false
	case *journaletv1.Event_RestartRequested:
		return []Ref{Pod(k.RestartRequested.GetUid())}, false
	case *journaletv1.Event_DrainRequested, *journaletv1.Event_UncordonRequested, *journaletv1.Event_ShutdownSignaled,
		*journaletv1.Event_NodeObserved, *journaletv1.Event_PressureObserved, *journaletv1.Event_DevicesObserved,
		*journaletv1.Event_PreferredDevicesRead:
		return []Ref{Node}, false
	case *journaletv1.Event_ApiDeleteFinished:
		return []Ref{Pod(k.ApiDeleteFinished.GetUid())}, false

	case *journaletv1.Event_PodUpdated:
		return []Ref{Pod(k.PodUpdated.GetPod().GetUid())}, false
	case *journaletv1.Event_AdmissionRequested, *journaletv1.Event_ResizeRequested, *journaletv1.Event_ResizeWithdrawn,
		*journaletv1.Event_UidRequested, *journaletv1.Event_UidWithdrawn, *journaletv1.Event_SourceSynced,
		*journaletv1.Event_FoundCpusLeft, *journaletv1.Event_PodsKeptOut:
		return []Ref{Node}, false
	case *journaletv1.Event_OrphanFound:
		return withOrphan(author, Pod(k.OrphanFound.GetUid())), false
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
	case *journaletv1.Event_PodTerminated, *journaletv1.Event_PodReclaimed, *journaletv1.Event_ImagesReclaimed:
		return []Ref{Node}, false
	case *journaletv1.Event_PodReclaimRequested:
		return []Ref{Pod(k.PodReclaimRequested.GetUid())}, false
	case *journaletv1.Event_ImageReclaimRequested:
		return []Ref{Image}, false
	case *journaletv1.Event_PodFinished:
		return []Ref{Source(k.PodFinished.GetSource()), Node, Image}, false
	case *journaletv1.Event_AdmissionDecided:
		return []Ref{Pod(k.AdmissionDecided.GetUid())}, false
	case *journaletv1.Event_SharedCpusDecided:
		return pods(k.SharedCpusDecided.GetPods()), false
	case *journaletv1.Event_ResizeDecided:
		return []Ref{Pod(k.ResizeDecided.GetUid())}, false
	case *journaletv1.Event_AdmissionDeferred:
		return []Ref{Pod(k.AdmissionDeferred.GetUid())}, false
	case *journaletv1.Event_PodEvictionDecided:
		return []Ref{Pod(k.PodEvictionDecided.GetUid())}, false
	case *journaletv1.Event_DeviceHealthDecided:
		return []Ref{Pod(k.DeviceHealthDecided.GetUid())}, false
	case *journaletv1.Event_PodReadmitted:
		return []Ref{Pod(k.PodReadmitted.GetUid())}, false
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

// withRequester returns the audience of an outcome: the runtime actor, whose slot it frees, and the requester.
func withRequester(requester string) []Ref {
	if r, err := ParseRef(requester); err == nil && r != Runtime {
		return []Ref{Runtime, r}
	}
	return []Ref{Runtime}
}

// withOrphan returns the audience of a found orphan: the node, and the orphan if another pod has found it.
func withOrphan(author, orphan Ref) []Ref {
	if author == orphan {
		return []Ref{Node}
	}
	return []Ref{Node, orphan}
}

// withVictims returns a pod and its victims.
func withVictims(uid string, preempts []string) []Ref {
	return append([]Ref{Pod(uid)}, pods(preempts)...)
}

// pods returns the pods with these UIDs.
func pods(uids []string) []Ref {
	var all []Ref
	for _, uid := range uids {
		all = append(all, Pod(uid))
	}
	return all
}

// Events returns the events of a record: one fact, or the decisions of a step.
func Events(rec *journaletv1.Record) []*journaletv1.Event {
	if fact := rec.GetFact(); fact != nil {
		return []*journaletv1.Event{fact}
	}
	return rec.GetStep().GetDecisions()
}
