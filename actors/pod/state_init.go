package pod

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
)

// How far a pod is initialized follows from its containers and is not kept: a lost journal and a new sandbox need no
// rule of their own. It corresponds to the kubelet's computeInitContainerActions.

// isSidecar reports whether an init container is a sidecar.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// containers returns the main containers.
func (a *Actor) containers() []corev1.Container {
	if a.manifest == nil {
		return nil
	}
	return a.manifest.Spec.Containers
}

// initContainers returns the init containers, sidecars among them.
func (a *Actor) initContainers() []corev1.Container {
	if a.manifest == nil {
		return nil
	}
	return a.manifest.Spec.InitContainers
}

// all returns the init and main containers in the order of their starts.
func (a *Actor) all() iter.Seq[*corev1.Container] { return containers.WithoutEphemeral(a.manifest) }

// isInit reports whether a container is an init container, sidecar or not.
func (a *Actor) isInit(name string) bool {
	return slices.ContainsFunc(a.initContainers(), func(c corev1.Container) bool { return c.Name == name })
}

// runsToCompletion reports whether a container is a regular init container: it ends before the next one starts.
func (a *Actor) runsToCompletion(c *corev1.Container) bool { return a.isInit(c.Name) && !isSidecar(c) }

// hasInstance reports whether a container has had an instance in the pod's sandbox.
func (a *Actor) hasInstance(c *corev1.Container) bool {
	r := a.record(c.Name)
	return r.GetCurrent() != nil && a.state.GetSandboxId() != "" &&
		r.GetCurrent().GetSandboxId() == a.state.GetSandboxId() && afterRestartAll(r)
}

// initialized reports whether a main container has had an instance in the pod's sandbox, or is being started in it.
// Then the init containers are done, whatever became of them since.
func (a *Actor) initialized() bool {
	for i := range a.containers() {
		c := &a.containers()[i]
		if a.hasInstance(c) || a.created(a.record(c.Name)) != nil || a.starting(c) {
			return true
		}
	}
	return false
}

// starting reports whether a container is being started in the pod's sandbox.
func (a *Actor) starting(c *corev1.Container) bool {
	return a.calling(func(r *journaletv1.CallRequested) bool {
		s := r.GetStartContainer()
		return s != nil && s.GetContainer() == c.Name && s.GetSandboxId() == a.state.GetSandboxId()
	})
}

// currentInit returns the index of the current init container, which holds up the init containers after it, or the
// number of init containers if none does. It searches from the newest one with an instance: those before it were done
// when it started. A sidecar before it that has died since is started again and holds up nothing.
func (a *Actor) currentInit() int {
	inits := a.initContainers()
	if len(inits) == 0 || a.initialized() {
		return len(inits)
	}
	newest := 0
	for i := range inits {
		if a.hasInstance(&inits[i]) {
			newest = i
		}
	}
	for i := newest; i < len(inits); i++ {
		if !a.initDone(&inits[i]) {
			return i
		}
	}
	return len(inits)
}

// initDone reports whether what comes after an init container may start: it has succeeded in this sandbox, or it is a
// sidecar that has started.
func (a *Actor) initDone(c *corev1.Container) bool {
	if isSidecar(c) {
		return a.hasInstance(c) && a.started(c)
	}
	return a.hasInstance(c) && succeededOnce(a.record(c.Name))
}

// succeededOnce reports whether the newest instance of a container ended with 0, and was not stopped as unhealthy.
func succeededOnce(r *journaletv1.ContainerRecord) bool {
	return exited(r.GetCurrent()) && r.GetCurrent().GetExitCode() == 0 && !r.GetStoppedAsUnhealthy()
}

// presumedDone reports whether an init container without a record must have succeeded, since a main container was
// created: the runtime no longer shows it, and the journal is younger than the pod.
func (a *Actor) presumedDone(c *corev1.Container) bool {
	if !a.runsToCompletion(c) || a.record(c.Name).GetCurrent() != nil {
		return false
	}
	for i := range a.containers() {
		if a.record(a.containers()[i].Name).GetCurrent() != nil {
			return true
		}
	}
	return false
}

// isCreated reports whether an instance is created and not started.
func isCreated(c *journaletv1.ContainerObservation) bool {
	return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_CREATED
}

// initCompleted reports whether a regular init container has succeeded, in whatever sandbox.
func (a *Actor) initCompleted(c *corev1.Container) bool {
	return succeededOnce(a.record(c.Name)) || a.presumedDone(c)
}

// mayStart reports whether a container may run now, as far as the init containers are concerned. An ephemeral one waits
// for none of them, and runs once.
func (a *Actor) mayStart(c *corev1.Container) bool {
	if a.isEphemeral(c.Name) {
		return a.hasNotRun(c.Name)
	}
	inits, current := a.initContainers(), a.currentInit()
	for i := range inits {
		if inits[i].Name == c.Name {
			return i == current || i < current && isSidecar(c)
		}
	}
	return current == len(inits)
}

// initFailed reports whether an init container has failed for good, which fails the pod. A failure in an earlier
// sandbox counts until the init container is the current one again. One whose start is under way may not have run.
func (a *Actor) initFailed() bool {
	inits := a.initContainers()
	for i := a.currentInit(); i < len(inits); i++ {
		c := &inits[i]
		r := a.record(c.Name)
		if !isSidecar(c) && exited(r.GetCurrent()) && r.GetCurrent().GetExitCode() != 0 && !a.restarts(c, r) &&
			!a.calling(startOfNewest(r)) {
			return true
		}
	}
	return false
}
