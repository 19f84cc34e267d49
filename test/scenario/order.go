package scenario

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The order of container starts that must hold on a node, whatever the agent's state is.

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// never reports whether a container may run only once. A container with restart rules counts as restartable.
func never(m *corev1.Pod, c *corev1.Container) bool {
	if restartsAll(m) {
		return false
	}
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyNever && len(c.RestartPolicyRules) == 0
	}
	return m.Spec.RestartPolicy == corev1.RestartPolicyNever
}

// restartsAll reports whether a rule may restart all containers of a pod, whatever their policies.
func restartsAll(m *corev1.Pod) bool {
	for _, c := range slices.Concat(m.Spec.InitContainers, m.Spec.Containers) {
		for _, r := range c.RestartPolicyRules {
			if r.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

func inSandbox(c *journaletv1.ContainerObservation, name string) string {
	return c.GetSandboxId() + " " + name
}

// define sets the image and hash of a container that is created. A later manifest does not change them.
func define(c *journaletv1.ContainerObservation, spec *corev1.Container) {
	if c.GetHash() == "" {
		c.Image, c.ImageRef, c.Hash = spec.Image, "sha256:"+spec.Image, pod.ContainerHash(spec)
	}
}

// checkStart sets the image and resources of a container that starts, and reports a start that violates the order.
func (w *world) checkStart(o *objects, alias string, c *journaletv1.ContainerObservation, m *corev1.Pod) {
	known := func(spec *corev1.Container, once string) {
		define(c, spec)
		o.resources[c.GetId()] = resources.OfContainer(m, spec)
		once += c.GetName() + " " + c.GetHash()
		o.starts[once]++
		if never(m, spec) && o.starts[once] > 1+o.requested[c.GetName()]+o.requested[""] {
			w.violation("%s: container %s started again under restartPolicy Never", alias, c.GetName())
		}
	}
	if spec := containers.Find(m, c.GetName()); containers.Ephemeral(m, c.GetName()) != nil {
		define(c, spec)
		if o.starts[c.GetName()]++; o.starts[c.GetName()] > 1 {
			w.violation("%s: ephemeral container %s started again", alias, c.GetName())
		}
		return
	}
	mainBefore := false
	for i := range m.Spec.Containers {
		mainBefore = mainBefore || o.started[inSandbox(c, m.Spec.Containers[i].Name)]
	}
	for i := range m.Spec.InitContainers {
		spec := &m.Spec.InitContainers[i]
		if spec.Name == c.GetName() {
			o.inits[c.GetId()] = !sidecar(spec)
			// It may run once in each sandbox.
			known(spec, c.GetSandboxId()+" ")
			if mainBefore && !sidecar(spec) && !restartsAll(m) && o.requested[""] == 0 {
				w.violation("%s: init container %s started after a main container", alias, spec.Name)
			}
			break
		}
		if w.initDone(o, c, m, i, mainBefore) {
			continue
		}
		w.violation("%s: container %s started before init container %s was done", alias, c.GetName(), spec.Name)
	}
	for i := range m.Spec.Containers {
		if spec := &m.Spec.Containers[i]; spec.Name == c.GetName() {
			known(spec, "")
		}
	}
	o.started[inSandbox(c, c.GetName())] = true
}

// noteStarting records the starts under way that an earlier manifest led to: init containers that a later manifest puts
// before them come too late.
func (o *objects) noteStarting(calls []*journaletv1.Call, start *journaletv1.StartContainer, uid string) {
	clear(o.startingBefore)
	for _, c := range calls {
		other := c.GetRequest().GetStartContainer()
		if other != nil && c.GetRequest().GetPodUid() == uid && other.GetDigest() != start.GetDigest() {
			o.startingBefore[other.GetSandboxId()+" "+other.GetContainer()] = true
		}
	}
}

// initDone reports whether the containers after an init container may start in a sandbox: it is done, or a container
// after it was started before.
func (w *world) initDone(o *objects, c *journaletv1.ContainerObservation, m *corev1.Pod, i int, mainBefore bool) bool {
	spec := &m.Spec.InitContainers[i]
	for j := range m.Spec.Containers {
		mainBefore = mainBefore || o.startingBefore[inSandbox(c, m.Spec.Containers[j].Name)]
	}
	for j := i + 1; j < len(m.Spec.InitContainers); j++ {
		mainBefore = mainBefore || o.started[inSandbox(c, m.Spec.InitContainers[j].Name)]
	}
	if sidecar(spec) {
		return mainBefore || o.started[inSandbox(c, spec.Name)]
	}
	return mainBefore || o.succeeded[inSandbox(c, spec.Name)]
}

// endInit ends a running init container with exit code 0. It returns false if no init container can end.
func (w *world) endInit(now time.Time) bool {
	for _, uid := range w.uids() {
		o := w.pods[uid]
		if o == nil {
			continue
		}
		for _, c := range o.containers {
			if o.inits[c.GetId()] && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING {
				o.end(c.GetId(), 0, now)
				return true
			}
		}
	}
	return false
}
