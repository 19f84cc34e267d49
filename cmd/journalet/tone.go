package main

import (
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// tone returns the colour of an event's text: red for a failure, yellow for a warning, green for what brings the agent
// or a pod further, faint for the actors' own timers, "" for the rest.
func tone(e *journaletv1.Event) string {
	switch {
	case failure(e):
		return red
	case warning(e):
		return yellow
	case lifecycle(e):
		return green
	case e.GetTimerSet() != nil, e.GetTimerCleared() != nil, e.GetTimerFired() != nil:
		return dim
	}
	return ""
}

// failure reports whether something failed, or was refused.
func failure(e *journaletv1.Event) bool {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_Quarantined, *journaletv1.Event_JournalDamaged:
		return true
	case *journaletv1.Event_CallFinished:
		return k.CallFinished.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	case *journaletv1.Event_ImagePullDecided:
		return k.ImagePullDecided.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	case *journaletv1.Event_OperatorPullDecided:
		return k.OperatorPullDecided.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	case *journaletv1.Event_ImagesCollected:
		return k.ImagesCollected.GetFreedBytes() < k.ImagesCollected.GetWantedBytes()
	case *journaletv1.Event_AdmissionDecided:
		return !k.AdmissionDecided.GetAdmitted()
	case *journaletv1.Event_RuntimeHealthChanged:
		return !k.RuntimeHealthChanged.GetRuntimeReady() || !k.RuntimeHealthChanged.GetNetworkReady()
	case *journaletv1.Event_PodStatusChanged:
		return k.PodStatusChanged.GetPhase() == journaletv1.PodPhase_POD_PHASE_FAILED
	case *journaletv1.Event_PodTerminated:
		return k.PodTerminated.GetPhase() == journaletv1.PodPhase_POD_PHASE_FAILED
	case *journaletv1.Event_PodTerminating:
		return k.PodTerminating.GetFailed()
	case *journaletv1.Event_ManifestsRead:
		for _, file := range k.ManifestsRead.GetChanged() {
			if len(file.GetProblems()) > 0 {
				return true
			}
		}
	}
	return false
}

// starting are the reasons of containers that wait for nothing but their turn.
var starting = map[string]bool{"ContainerCreating": true, "PodInitializing": true}

// warning reports whether something did not go as desired, and is tried again or waits.
func warning(e *journaletv1.Event) bool {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ManifestIgnored, *journaletv1.Event_BackOffStarted, *journaletv1.Event_AdmissionDeferred,
		*journaletv1.Event_AdmissionPendingPreemption, *journaletv1.Event_ResizePendingPreemption,
		*journaletv1.Event_UidDeferred, *journaletv1.Event_OrphanFound, *journaletv1.Event_OrphanConfirmed,
		*journaletv1.Event_AllContainersRestarting, *journaletv1.Event_CallDropped,
		*journaletv1.Event_ImageFilesystemFull, *journaletv1.Event_PodEvictionDecided:
		return true
	case *journaletv1.Event_PressureObserved:
		return len(k.PressureObserved.GetThresholds()) > 0
	case *journaletv1.Event_NodePressureDecided:
		return len(k.NodePressureDecided.GetConditions()) > 0
	case *journaletv1.Event_DevicesObserved:
		return k.DevicesObserved.GetMessage() != ""
	case *journaletv1.Event_DeviceHealthDecided:
		return len(k.DeviceHealthDecided.GetDevices()) > 0
	case *journaletv1.Event_ClaimHealthObserved:
		return slices.ContainsFunc(k.ClaimHealthObserved.GetDevices(), func(d *journaletv1.ClaimDeviceHealth) bool {
			return d.GetHealth() == journaletv1.DeviceHealth_DEVICE_HEALTH_UNHEALTHY
		})
	case *journaletv1.Event_ImageRemovalDecided:
		return k.ImageRemovalDecided.GetMessage() != ""
	case *journaletv1.Event_ApiServerContact:
		return !k.ApiServerContact.GetReachable() || k.ApiServerContact.GetMessage() != ""
	case *journaletv1.Event_NodeObserved:
		return k.NodeObserved.GetOtherMachine() != nil
	case *journaletv1.Event_NodeRegistered:
		return k.NodeRegistered.GetOtherMachine() != nil
	case *journaletv1.Event_CertificateChanged:
		return k.CertificateChanged.GetMessage() != ""
	case *journaletv1.Event_ProbeResult:
		return !k.ProbeResult.GetSuccess()
	case *journaletv1.Event_ResizeDecided:
		return !k.ResizeDecided.GetAllocated()
	case *journaletv1.Event_PodStatusChanged:
		for _, w := range k.PodStatusChanged.GetWaiting() {
			if w.GetReason() != "" && !starting[w.GetReason()] {
				return true
			}
		}
	case *journaletv1.Event_PodTerminating:
		return k.PodTerminating.GetReason() != ""
	case *journaletv1.Event_PodObserved:
		return exited(k.PodObserved)
	}
	return false
}

// exited reports whether the newest instance of a container has exited with another code than 0.
func exited(o *journaletv1.PodObserved) bool {
	latest := map[string]*journaletv1.ContainerObservation{}
	for _, c := range o.GetContainers() {
		if c.GetAttempt() >= latest[c.GetName()].GetAttempt() {
			latest[c.GetName()] = c
		}
	}
	for _, c := range latest {
		if c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED && c.GetExitCode() != 0 {
			return true
		}
	}
	return false
}

// lifecycle reports whether the agent, a pod or a resize got one step further.
func lifecycle(e *journaletv1.Event) bool {
	switch e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted, *journaletv1.Event_AgentStopped, *journaletv1.Event_QuarantineLifted,
		*journaletv1.Event_PodUpdated, *journaletv1.Event_SourceSynced, *journaletv1.Event_AdmissionDecided,
		*journaletv1.Event_PodStatusChanged, *journaletv1.Event_PodTerminated, *journaletv1.Event_PodFinished,
		*journaletv1.Event_PodTerminating, *journaletv1.Event_ResizeDecided, *journaletv1.Event_ResizeCompleted,
		*journaletv1.Event_RuntimeHealthChanged, *journaletv1.Event_ImagePullDecided:
		return true
	}
	return false
}
