package timeline

import (
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// kindOf returns the coarse kind of an event.
func kindOf(e *journaletv1.Event) string {
	switch e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted, *journaletv1.Event_AgentStopped, *journaletv1.Event_JournalDamaged,
		*journaletv1.Event_Quarantined, *journaletv1.Event_QuarantineLifted, *journaletv1.Event_RuntimeHealthChanged,
		*journaletv1.Event_DrainRequested, *journaletv1.Event_UncordonRequested, *journaletv1.Event_ShutdownSignaled,
		*journaletv1.Event_DrainProgressed, *journaletv1.Event_NodeObserved, *journaletv1.Event_NodeRegistered,
		*journaletv1.Event_ApiServerContact, *journaletv1.Event_CertificateChanged,
		*journaletv1.Event_PressureObserved, *journaletv1.Event_NodePressureDecided,
		*journaletv1.Event_EvictionProgressed, *journaletv1.Event_DevicesObserved,
		*journaletv1.Event_DeviceCapacityDecided:
		return "agent"
	case *journaletv1.Event_TimerFired, *journaletv1.Event_TimerSet, *journaletv1.Event_TimerCleared:
		return "timer"
	case *journaletv1.Event_ManifestsRead, *journaletv1.Event_PodUpdated, *journaletv1.Event_ManifestIgnored,
		*journaletv1.Event_SourceSynced, *journaletv1.Event_PodForgotten, *journaletv1.Event_UidRequested,
		*journaletv1.Event_UidWithdrawn, *journaletv1.Event_UidGranted, *journaletv1.Event_UidDeferred:
		return "source"
	case *journaletv1.Event_PodObserved, *journaletv1.Event_PodCgroupLost, *journaletv1.Event_BackOffStarted,
		*journaletv1.Event_AllContainersRestarting, *journaletv1.Event_SessionStarted,
		*journaletv1.Event_SessionEnded, *journaletv1.Event_RestartRequested, *journaletv1.Event_LogRotated,
		*journaletv1.Event_OomKillObserved:
		return "container"
	case *journaletv1.Event_CallRequested, *journaletv1.Event_CallWithdrawn, *journaletv1.Event_CallDispatched,
		*journaletv1.Event_CallDropped, *journaletv1.Event_CallFinished:
		return "call"
	case *journaletv1.Event_ImagePullRequested, *journaletv1.Event_ImagePullWithdrawn,
		*journaletv1.Event_ImagePullDecided, *journaletv1.Event_PullProgressed, *journaletv1.Event_ImagesObserved,
		*journaletv1.Event_ImageFilesystemFull, *journaletv1.Event_ImagesCollected,
		*journaletv1.Event_OperatorPullRequested, *journaletv1.Event_OperatorPullDecided,
		*journaletv1.Event_ImageRemovalRequested, *journaletv1.Event_ImageRemovalDecided,
		*journaletv1.Event_ImageReclaimRequested, *journaletv1.Event_ImagesReclaimed:
		return "image"
	case *journaletv1.Event_ObjectsSet, *journaletv1.Event_ObjectsRead, *journaletv1.Event_VolumesLost,
		*journaletv1.Event_PodDirectoryFound, *journaletv1.Event_StorageExceeded:
		return "volume"
	case *journaletv1.Event_ProbesSet, *journaletv1.Event_ProbeResult, *journaletv1.Event_ReadinessGatesSet,
		*journaletv1.Event_ReadinessGatesRead:
		return "probe"
	case *journaletv1.Event_AdmissionRequested, *journaletv1.Event_AdmissionDecided,
		*journaletv1.Event_AdmissionDeferred, *journaletv1.Event_AdmissionPendingPreemption,
		*journaletv1.Event_PreferredDevicesRequested, *journaletv1.Event_PreferredDevicesRead:
		return "admission"
	case *journaletv1.Event_ResizeRequested, *journaletv1.Event_ResizeCompleted, *journaletv1.Event_ResizeStarted,
		*journaletv1.Event_ResizeWithdrawn, *journaletv1.Event_ResizeDecided,
		*journaletv1.Event_ResizePendingPreemption, *journaletv1.Event_SharedCpusDecided:
		return "resize"
	}
	return "status"
}

// alerts reports whether an event by itself needs attention. What becomes one by what was before is marked where it is
// folded: an exit, a start of the agent after a crash.
func alerts(e *journaletv1.Event) bool {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_JournalDamaged, *journaletv1.Event_Quarantined, *journaletv1.Event_ManifestIgnored,
		*journaletv1.Event_BackOffStarted, *journaletv1.Event_AdmissionPendingPreemption,
		*journaletv1.Event_ResizePendingPreemption, *journaletv1.Event_OrphanFound:
		return true
	case *journaletv1.Event_RuntimeHealthChanged:
		return !k.RuntimeHealthChanged.GetRuntimeReady() || !k.RuntimeHealthChanged.GetNetworkReady()
	case *journaletv1.Event_ManifestsRead:
		for _, f := range k.ManifestsRead.GetChanged() {
			if len(f.GetProblems()) > 0 || f.GetUnreadable() {
				return true
			}
		}
	case *journaletv1.Event_CallFinished:
		return failed(k.CallFinished.GetError())
	case *journaletv1.Event_ImagePullDecided:
		return k.ImagePullDecided.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	case *journaletv1.Event_ProbeResult:
		return !k.ProbeResult.GetSuccess()
	case *journaletv1.Event_AdmissionDecided:
		return !k.AdmissionDecided.GetAdmitted()
	case *journaletv1.Event_OperatorPullDecided:
		return k.OperatorPullDecided.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	case *journaletv1.Event_LogRotated:
		return k.LogRotated.GetMessage() != ""
	case *journaletv1.Event_ApiServerContact:
		return !k.ApiServerContact.GetReachable() || k.ApiServerContact.GetMessage() != ""
	case *journaletv1.Event_NodeObserved:
		return k.NodeObserved.GetOtherMachine() != nil
	case *journaletv1.Event_NodeRegistered:
		return k.NodeRegistered.GetOtherMachine() != nil
	case *journaletv1.Event_CertificateChanged:
		return k.CertificateChanged.GetMessage() != ""
	case *journaletv1.Event_NodePressureDecided:
		return len(k.NodePressureDecided.GetConditions()) > 0
	case *journaletv1.Event_DevicesObserved:
		return k.DevicesObserved.GetMessage() != ""
	case *journaletv1.Event_ImageFilesystemFull, *journaletv1.Event_PodEvictionDecided:
		return true
	case *journaletv1.Event_ResizeDecided:
		return !k.ResizeDecided.GetAllocated()
	case *journaletv1.Event_AllContainersRestarting:
		return !k.AllContainersRestarting.GetAllStopped()
	case *journaletv1.Event_PodTerminating:
		return k.PodTerminating.GetReason() != ""
	case *journaletv1.Event_PodTerminated:
		return k.PodTerminated.GetPhase() == journaletv1.PodPhase_POD_PHASE_FAILED
	}
	return false
}

// failed reports whether the error of a call is a failure. A missing image and a withdrawn call are none.
func failed(e journaletv1.CallError) bool {
	switch e {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED, journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT,
		journaletv1.CallError_CALL_ERROR_WITHDRAWN:
		return false
	}
	return true
}

// turningPoint reports whether a person who reads a pod's history wants to see an event, though it is no alert.
func turningPoint(e *journaletv1.Event) bool {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted, *journaletv1.Event_AgentStopped, *journaletv1.Event_PodUpdated,
		*journaletv1.Event_PodTerminated, *journaletv1.Event_PodFinished, *journaletv1.Event_QuarantineLifted:
		return true
	case *journaletv1.Event_ProbeResult:
		return k.ProbeResult.GetSuccess()
	case *journaletv1.Event_PodStatusChanged:
		for _, c := range k.PodStatusChanged.GetConditions() {
			if c.GetType() == "Ready" && c.GetStatus() {
				return true
			}
		}
	}
	return false
}

// span formats a duration in at most about four figures.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return d.Round(time.Hour).String()
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
