package kind

import (
	"cmp"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Failed reports whether the outcome of a call is a failure. None is what the agent itself withdrew, what a restart
// interrupted and is done again, and an image that is missing: its pull is next, and fails or not.
func Failed(e journaletv1.CallError) bool {
	switch e {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED, journaletv1.CallError_CALL_ERROR_WITHDRAWN,
		journaletv1.CallError_CALL_ERROR_NOT_DONE, journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT:
		return false
	}
	return true
}

// byContent returns the severity of an event of a kind with up_to, Unknown for other kinds.
func byContent(e *journaletv1.Event) journaletv1.Severity {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ManifestsRead:
		return either(Failure, slices.ContainsFunc(k.ManifestsRead.GetChanged(), wrong), Info)
	case *journaletv1.Event_CallFinished:
		return either(Failure, Failed(k.CallFinished.GetError()), Info)
	case *journaletv1.Event_RuntimeHealthChanged:
		h := k.RuntimeHealthChanged
		return either(Failure, !h.GetRuntimeReady() || !h.GetNetworkReady(), Progress)
	case *journaletv1.Event_ImagePullDecided:
		return either(Failure, k.ImagePullDecided.GetError() != noError, Info)
	case *journaletv1.Event_OperatorPullDecided:
		return either(Failure, k.OperatorPullDecided.GetError() != noError, Info)
	case *journaletv1.Event_ImagesCollected:
		return either(Failure, k.ImagesCollected.GetFreedBytes() < k.ImagesCollected.GetWantedBytes(), Info)
	case *journaletv1.Event_ImageRemovalDecided:
		return either(Warning, k.ImageRemovalDecided.GetMessage() != "", Info)
	case *journaletv1.Event_LogRotated:
		return either(Warning, k.LogRotated.GetMessage() != "", Info)
	case *journaletv1.Event_SessionEnded:
		return either(Warning, k.SessionEnded.GetMessage() != "", Info)
	case *journaletv1.Event_ObjectsRead:
		return either(Warning, slices.ContainsFunc(k.ObjectsRead.GetObjects(), unreadable), Info)
	}
	return cmp.Or(ofNode(e), ofPod(e))
}

const noError = journaletv1.CallError_CALL_ERROR_UNSPECIFIED

// ofNode is byContent for what is about the agent and its node.
func ofNode(e *journaletv1.Event) journaletv1.Severity {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		return either(Warning, len(k.AgentStarted.GetKubeletState().GetProblems()) > 0, Progress)
	case *journaletv1.Event_ApiServerContact:
		return either(Warning, !k.ApiServerContact.GetReachable() || k.ApiServerContact.GetMessage() != "", Progress)
	case *journaletv1.Event_CertificateChanged:
		return either(Warning, k.CertificateChanged.GetMessage() != "", Info)
	case *journaletv1.Event_NodeObserved:
		return either(Warning, k.NodeObserved.GetOtherMachine() != nil || k.NodeObserved.GetFailure() != "", Info)
	case *journaletv1.Event_NodeRegistered:
		return either(Warning, k.NodeRegistered.GetOtherMachine() != nil, Progress)
	case *journaletv1.Event_PressureObserved:
		return either(Warning, len(k.PressureObserved.GetThresholds()) > 0, Info)
	case *journaletv1.Event_NodePressureDecided:
		return either(Warning, len(k.NodePressureDecided.GetConditions()) > 0, Info)
	case *journaletv1.Event_EvictionProgressed:
		stage := k.EvictionProgressed.GetStage()
		return either(Warning, stage == journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMING ||
			stage == journaletv1.EvictionStage_EVICTION_STAGE_ENDING, Info)
	case *journaletv1.Event_DevicesObserved:
		o := k.DevicesObserved
		return either(Warning, o.GetMessage() != "" || slices.ContainsFunc(o.GetChanged(), broken), Info)
	case *journaletv1.Event_PreferredDevicesRead:
		return either(Warning, k.PreferredDevicesRead.GetMessage() != "", Info)
	}
	return Unknown
}

// ofPod is byContent for what is about one pod.
func ofPod(e *journaletv1.Event) journaletv1.Severity {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodObserved:
		return either(Warning, exited(k.PodObserved), Info)
	case *journaletv1.Event_ProbeResult: // a success has a message if it is a warning
		return either(Warning, !k.ProbeResult.GetSuccess() || k.ProbeResult.GetMessage() != "", Progress)
	case *journaletv1.Event_ClaimHealthObserved:
		return either(Warning, slices.ContainsFunc(k.ClaimHealthObserved.GetDevices(), unhealthy), Info)
	case *journaletv1.Event_DeviceHealthDecided:
		return either(Warning, len(k.DeviceHealthDecided.GetDevices()) > 0, Info)
	case *journaletv1.Event_ApiDeleteFinished:
		return either(Warning, k.ApiDeleteFinished.GetMessage() != "", Info)
	case *journaletv1.Event_PodsKeptOut:
		return either(Warning, len(k.PodsKeptOut.GetPods()) > 0, Info)
	case *journaletv1.Event_AdmissionDecided:
		if k.AdmissionDecided.GetAdmitted() {
			return either(Warning, k.AdmissionDecided.GetReason() != "", Info) // it is left alone
		}
		return Failure
	case *journaletv1.Event_AdmissionDeferred: // that the pod before it of the same name ends first is as expected
		d := k.AdmissionDeferred
		return either(Warning, d.GetHolderUid() == "" || d.GetReason() != "", Info)
	case *journaletv1.Event_ResizeDecided:
		return either(Warning, !k.ResizeDecided.GetAllocated(), Progress)
	case *journaletv1.Event_AllContainersRestarting:
		return either(Warning, !k.AllContainersRestarting.GetAllStopped(), Progress)
	case *journaletv1.Event_PodStatusChanged:
		return status(k.PodStatusChanged)
	case *journaletv1.Event_PodTerminated:
		return either(Failure, k.PodTerminated.GetPhase() == journaletv1.PodPhase_POD_PHASE_FAILED, Progress)
	case *journaletv1.Event_PodTerminating:
		return either(Failure, k.PodTerminating.GetFailed(),
			either(Warning, k.PodTerminating.GetReason() != "", Progress))
	}
	return Unknown
}

// either returns then if something is so.
func either(then journaletv1.Severity, is bool, otherwise journaletv1.Severity) journaletv1.Severity {
	if is {
		return then
	}
	return otherwise
}

// status is the severity of a pod's status. It has only the conditions that changed.
func status(s *journaletv1.PodStatusChanged) journaletv1.Severity {
	if s.GetPhase() == journaletv1.PodPhase_POD_PHASE_FAILED {
		return Failure
	}
	for _, w := range s.GetWaiting() {
		if w.GetReason() != "" && !Starting(w.GetReason()) { // without a reason it waits no longer
			return Warning
		}
	}
	severity := Info
	for _, c := range s.GetConditions() {
		switch {
		case c.GetType() == "PodResizePending" && c.GetStatus(),
			c.GetType() == "PodResizeInProgress" && c.GetReason() == "Error":
			return Warning
		case c.GetType() == "Ready" && c.GetStatus():
			severity = Progress
		}
	}
	return severity
}

// Starting reports whether a container that waits with this reason waits for nothing but its turn.
func Starting(reason string) bool {
	return reason == "ContainerCreating" || reason == "PodInitializing"
}

// exited reports whether the newest instance of a container has exited with another code than 0.
func exited(o *journaletv1.PodObserved) bool {
	return slices.ContainsFunc(o.GetContainers(), func(c *journaletv1.ContainerObservation) bool {
		return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED && c.GetExitCode() != 0 &&
			!slices.ContainsFunc(o.GetContainers(), func(later *journaletv1.ContainerObservation) bool {
				return later.GetName() == c.GetName() && later.GetAttempt() > c.GetAttempt()
			})
	})
}

func wrong(f *journaletv1.ManifestFile) bool { return len(f.GetProblems()) > 0 || f.GetUnreadable() }

// unreadable reports whether an object is there and cannot be read. One that is missing may be optional.
func unreadable(o *journaletv1.ObjectRead) bool {
	return o.GetState() == journaletv1.ObjectState_OBJECT_STATE_UNREADABLE
}

func broken(d *journaletv1.Device) bool { return !d.GetHealthy() }

func unhealthy(d *journaletv1.ClaimDeviceHealth) bool {
	return d.GetHealth() == journaletv1.DeviceHealth_DEVICE_HEALTH_UNHEALTHY
}
