package pod

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Where a pod's initialization has come to is read off its containers, never kept: so an agent that lost its journal, or
// a sandbox that was replaced, needs no rule of its own. It corresponds to the kubelet's computeInitContainerActions.

// isSidecar tells whether an init container is one that stays.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// containers are the main containers.
func (a *Actor) containers() []corev1.Container {
	if a.manifest == nil {
		return nil
	}
	return a.manifest.Spec.Containers
}

// initContainers are the init containers, sidecars among them.
func (a *Actor) initContainers() []corev1.Container {
	if a.manifest == nil {
		return nil
	}
	return a.manifest.Spec.InitContainers
}

// all are all containers in the order of their starts.
func (a *Actor) all() iter.Seq[*corev1.Container] { return containersOf(a.manifest) }

// containersOf are the containers of a pod, which may be nil, in the order of their starts.
func containersOf(p *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		if p == nil {
			return
		}
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// isInit tells whether a container is an init container, sidecar or not.
func (a *Actor) isInit(name string) bool {
	return slices.ContainsFunc(a.initContainers(), func(c corev1.Container) bool { return c.Name == name })
}

// runsOnce tells whether a container is an init container that ends before the next one starts.
func (a *Actor) runsOnce(c *corev1.Container) bool { return a.isInit(c.Name) && !isSidecar(c) }

// begun tells whether a container has had an instance in the pod's sandbox.
func (a *Actor) begun(c *corev1.Container) bool {
	cur := a.record(c.Name).GetCurrent()
	return cur != nil && a.state.GetSandboxId() != "" && cur.GetSandboxId() == a.state.GetSandboxId() && countsStill(a.record(c.Name))
}

// initialized reports whether a main container has had an instance in the pod's sandbox, or is being started in it: then the
// init containers are done, whatever became of them since.
func (a *Actor) initialized() bool {
	for i := range a.containers() {
		c := &a.containers()[i]
		if a.begun(c) || a.made(a.record(c.Name)) != nil || a.starting(c) {
			return true
		}
	}
	return false
}

// starting tells whether a container is being started in the pod's sandbox.
func (a *Actor) starting(c *corev1.Container) bool {
	return a.calling(func(r *journaletv1.CallRequested) bool {
		s := r.GetStartContainer()
		return s != nil && s.GetContainer() == c.Name && s.GetSandboxId() == a.state.GetSandboxId()
	})
}

// turn is the index of the init container that holds up those after it; the number of them if none does. The newest one
// that has begun counts: those before it were done when it began, and a sidecar among them that has died since is started
// again without holding up anything.
func (a *Actor) turn() int {
	inits := a.initContainers()
	if len(inits) == 0 || a.initialized() {
		return len(inits)
	}
	newest := 0
	for i := range inits {
		if a.begun(&inits[i]) {
			newest = i
		}
	}
	for i := newest; i < len(inits); i++ {
		if !a.through(&inits[i]) {
			return i
		}
	}
	return len(inits)
}

// through tells whether what comes after an init container may start: it has ended well in this sandbox, or, as a
// sidecar, its start is over.
func (a *Actor) through(c *corev1.Container) bool {
	if isSidecar(c) {
		return a.begun(c) && a.started(c)
	}
	return a.begun(c) && succeededOnce(a.record(c.Name))
}

func succeededOnce(r *journaletv1.ContainerRecord) bool {
	return exited(r.GetCurrent()) && r.GetCurrent().GetExitCode() == 0 && !r.GetStoppedAsUnhealthy()
}

// presumedDone tells whether an init container of which nothing is known must have done its work, since a main container
// was made: the runtime no longer shows it and the journal is younger than the pod.
func (a *Actor) presumedDone(c *corev1.Container) bool {
	if !a.runsOnce(c) || a.record(c.Name).GetCurrent() != nil {
		return false
	}
	for i := range a.containers() {
		if a.record(a.containers()[i].Name).GetCurrent() != nil {
			return true
		}
	}
	return false
}

// notStarted tells whether an instance was made and has not been started.
func notStarted(c *journaletv1.ContainerObservation) bool {
	return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_CREATED
}

// didItsWork tells whether an init container that is to run once has ended well, in whatever sandbox.
func (a *Actor) didItsWork(c *corev1.Container) bool {
	return succeededOnce(a.record(c.Name)) || a.presumedDone(c)
}

// atTurn tells whether a container may run now, for all that stands before it.
func (a *Actor) atTurn(c *corev1.Container) bool {
	inits, turn := a.initContainers(), a.turn()
	for i := range inits {
		if inits[i].Name == c.Name {
			return i == turn || i < turn && isSidecar(c)
		}
	}
	return turn == len(inits)
}

// failedToInitialize tells whether an init container has failed for good, which fails the pod. What failed in an earlier
// sandbox counts until its turn has come again.
func (a *Actor) failedToInitialize() bool {
	inits := a.initContainers()
	for i := a.turn(); i < len(inits); i++ {
		c := &inits[i]
		r := a.record(c.Name)
		if !isSidecar(c) && exited(r.GetCurrent()) && r.GetCurrent().GetExitCode() != 0 && !a.restarts(c, r) {
			return true
		}
	}
	return false
}
