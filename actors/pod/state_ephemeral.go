package pod

import (
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
)

// An ephemeral container is added to a running pod through the API server. It starts once, whatever becomes of it and
// of the sandbox, waits for no init container, and ends with the pod (ADR 052). No phase, readiness or resources follow
// from it.

// isEphemeral reports whether a container of the manifest is an ephemeral one.
func (a *Actor) isEphemeral(name string) bool { return containers.Ephemeral(a.manifest, name) != nil }

// ephemerals yields the ephemeral containers in the order of the manifest.
func (a *Actor) ephemerals() iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for c := range containers.All(a.manifest) {
			if a.isEphemeral(c.Name) && !yield(c) {
				return
			}
		}
	}
}

// hasNotRun reports whether no instance of a container has been started, as far as is known.
func (a *Actor) hasNotRun(name string) bool {
	r := a.record(name)
	return r.GetCurrent() == nil || isCreated(r.GetCurrent()) || a.created(r) != nil || notRun(r)
}

// target returns the instance whose process namespace an ephemeral container is to join: the newest one of the
// container that it names. It is nil for every other container.
func (a *Actor) target(name string) *journaletv1.ContainerObservation {
	c := containers.Ephemeral(a.manifest, name)
	if c == nil || c.TargetContainerName == "" {
		return nil
	}
	return a.record(c.TargetContainerName).GetCurrent()
}

// targetProblem returns why an ephemeral container cannot join its target, empty if it can. The kubelet requests the
// container with a target that has ended, again and again, and the runtime refuses it. Here it waits for the next
// instance. Where the pod's containers share their processes, the target need not run.
func (a *Actor) targetProblem(name string) string {
	c := containers.Ephemeral(a.manifest, name)
	if c == nil || c.TargetContainerName == "" {
		return ""
	}
	switch cur := a.target(name); {
	case cur == nil:
		return "unable to find target container " + c.TargetContainerName
	case !a.sharesProcesses() && (!running(cur) || a.wasStopped(cur) || cur.GetSandboxId() != a.state.GetSandboxId()):
		return "target container " + c.TargetContainerName + " is not running"
	}
	return ""
}

// sharesProcesses reports whether the pod's containers are in one process namespace: their own, or the node's.
func (a *Actor) sharesProcesses() bool {
	s := &a.manifest.Spec
	return s.HostPID || s.ShareProcessNamespace != nil && *s.ShareProcessNamespace
}
