package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Reasons for which a container waits, as the kubelet names them.
const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonCrashLoop    = "CrashLoopBackOff"
	reasonPullBackOff  = "ImagePullBackOff"
	reasonNeverPull    = "ErrImageNeverPull"
	reasonInvalidImage = "InvalidImageName"
)

// startError is what a failed start leaves as the container's reason for waiting.
func startError(f *journaletv1.CallFinished, neverPull bool) *journaletv1.ContainerWaiting {
	w := &journaletv1.ContainerWaiting{Reason: "RunContainerError", Message: f.GetMessage()}
	switch f.GetError() {
	case journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT:
		w.Reason = reasonCreating
		if neverPull {
			w.Reason = reasonNeverPull
		}
	case journaletv1.CallError_CALL_ERROR_IMAGE_INSPECT:
		w.Reason = "ImageInspectError"
	case journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME:
		w.Reason = reasonInvalidImage
	case journaletv1.CallError_CALL_ERROR_CONFIG, journaletv1.CallError_CALL_ERROR_VOLUME:
		w.Reason = "CreateContainerConfigError"
	case journaletv1.CallError_CALL_ERROR_CREATE:
		w.Reason = "CreateContainerError"
	}
	return w
}

// pullError is what a failed pull leaves as the reason for waiting: the error's own name is in the
// message, since the pod waits out a back-off from the moment that it is told.
func pullError(r *journaletv1.ImagePullDecided) *journaletv1.ContainerWaiting {
	name := "ErrImagePull"
	switch r.GetError() {
	case journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME:
		return &journaletv1.ContainerWaiting{Reason: reasonInvalidImage, Message: r.GetMessage()}
	case journaletv1.CallError_CALL_ERROR_REGISTRY_UNAVAILABLE:
		name = "RegistryUnavailable"
	case journaletv1.CallError_CALL_ERROR_SIGNATURE_VALIDATION:
		name = "SignatureValidationFailed"
	}
	return &journaletv1.ContainerWaiting{
		Reason:  reasonPullBackOff,
		Message: fmt.Sprintf("Back-off pulling image %q: %s: %s", r.GetImage(), name, r.GetMessage()),
	}
}

// waiting tells why a container does not run; nil for one that runs or has ended.
func (a *Actor) waiting(c *corev1.Container) *journaletv1.ContainerWaiting {
	r := a.record(c.Name)
	cur := r.GetCurrent()
	switch {
	case isRunning(r) && (a.over() || postStarted(c, r)), a.presumedDone(c):
		return nil
	case exited(cur) && (a.over() || !a.willRestart(c, r)):
		return nil
	case r.GetStartError().GetReason() == reasonCreating:
		return &journaletv1.ContainerWaiting{Reason: a.creating(), Message: r.GetStartError().GetMessage()}
	case r.GetStartError() != nil:
		return r.GetStartError()
	case exited(cur) && a.state.GetTimers().GetSet()[backOffTimer+c.Name] != nil:
		return &journaletv1.ContainerWaiting{Reason: reasonCrashLoop, Message: fmt.Sprintf(
			"back-off %s restarting failed container=%s pod=%s_%s(%s)", r.GetBackOff().GetDelay().AsDuration(),
			c.Name, a.state.GetPod().GetName(), a.state.GetPod().GetNamespace(), a.state.GetPod().GetUid())}
	case exited(cur), a.last(r) != nil && r.GetWaiting() == nil && postStarted(c, r):
		// A restart that needs no waiting shows none: from terminated straight to running.
		return nil
	}
	return &journaletv1.ContainerWaiting{Reason: a.creating()}
}

// creating is what a container waits for that nothing is the matter with.
func (a *Actor) creating() string {
	if len(a.initContainers()) > 0 {
		return reasonInitializing
	}
	return reasonCreating
}

// over tells whether no container will start again.
func (a *Actor) over() bool { return a.state.GetStage() > runningPod }

// willRestart tells whether a container that has ended is to run again. Of an init container that did its work nobody
// expects it, even where a new sandbox has it run once more.
func (a *Actor) willRestart(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	return a.restarts(c, r) && !(a.runsOnce(c) && succeededOnce(r))
}
