package pod

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Reasons why a container waits, as the kubelet names them.
const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonCrashLoop    = "CrashLoopBackOff"
	reasonPullBackOff  = "ImagePullBackOff"
	reasonNeverPull    = "ErrImageNeverPull"
	reasonInvalidImage = "InvalidImageName"
	reasonConfig       = "CreateContainerConfigError"
)

// waiting returns why a container does not run, nil if it runs or has ended.
func (a *Actor) waiting(c *corev1.Container) *journaletv1.ContainerWaiting {
	r := a.record(c.Name)
	cur := r.GetCurrent()
	switch {
	case isRunning(r) && (a.noMoreStarts() || postStarted(c, r)), a.presumedDone(c):
		return nil
	case exited(cur) && (a.noMoreStarts() || !a.willRestart(c, r)):
		return nil
	case a.configProblem(c) != "":
		return &journaletv1.ContainerWaiting{Reason: reasonConfig, Message: a.configProblem(c)}
	case r.GetStartError().GetReason() == reasonCreating:
		return &journaletv1.ContainerWaiting{Reason: a.creating(), Message: r.GetStartError().GetMessage()}
	case r.GetStartError() != nil:
		return r.GetStartError()
	case exited(cur) && a.state.GetTimers().GetSet()[backOffTimer+c.Name] != nil:
		return &journaletv1.ContainerWaiting{Reason: reasonCrashLoop, Message: fmt.Sprintf(
			"back-off %s restarting failed container=%s pod=%s_%s(%s)", r.GetBackOff().GetDelay().AsDuration(),
			c.Name, a.state.GetPod().GetName(), a.state.GetPod().GetNamespace(), a.state.GetPod().GetUid())}
	case exited(cur) && !notRun(r), !exited(cur) && a.last(r) != nil && r.GetWaiting() == nil && postStarted(c, r):
		// A restart without a wait shows none: the container goes from terminated to running.
		return nil
	}
	return &journaletv1.ContainerWaiting{
		Reason:  a.creating(),
		Message: cmp.Or(a.volumeProblem(), a.ClaimProblem(), a.deviceProblem(c.Name), a.waitsForHook(c)),
	}
}

// waitsForHook says which postStart hook is running that a container waits for, empty without one.
func (a *Actor) waitsForHook(c *corev1.Container) string {
	if a.isInit(c.Name) || a.isEphemeral(c.Name) || !a.mayStart(c) {
		return ""
	}
	for i := range a.containers() {
		earlier := &a.containers()[i]
		if earlier.Name == c.Name {
			break
		}
		if handler(earlier, postStartHook) == nil {
			continue
		}
		if r := a.record(earlier.Name); isRunning(r) && !postStarted(earlier, r) {
			return "it starts once the postStart hook of container " + earlier.Name + " has ended"
		}
	}
	return ""
}

// creating returns the reason for waiting of a container without a problem.
func (a *Actor) creating() string {
	if len(a.initContainers()) > 0 {
		return reasonInitializing
	}
	return reasonCreating
}

// noMoreStarts reports whether no container will start again.
func (a *Actor) noMoreStarts() bool { return a.state.GetStage() > runningPod || a.LeftAlone() }

// willRestart reports whether a container that has ended is shown as going to restart. A regular init container that
// succeeded is not, even where a new sandbox runs it again.
func (a *Actor) willRestart(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	return a.restarts(c, r) && !(a.runsToCompletion(c) && succeededOnce(r))
}
