package scenario

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What a node must never see of the order in which containers start, whatever the agent's state says.

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// never tells whether a container is to run but once; rules are not looked at, so one with rules counts as restartable.
func never(m *corev1.Pod, c *corev1.Container) bool {
	if restartsAll(m) {
		return false
	}
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyNever && len(c.RestartPolicyRules) == 0
	}
	return m.Spec.RestartPolicy == corev1.RestartPolicyNever
}

// restartsAll tells whether a rule may have all containers of a pod started again, whatever their policies.
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

// define gives a container what its manifest says of it when it is made. A later manifest changes nothing of that.
func define(c *journaletv1.ContainerObservation, spec *corev1.Container) {
	if c.GetHash() == "" {
		c.Image, c.ImageRef, c.Hash = spec.Image, "sha256:"+spec.Image, pod.ContainerHash(spec)
	}
}

// watchStart gives a container that starts what its manifest says of it, and judges its turn.
func (w *world) watchStart(o *objects, alias string, c *journaletv1.ContainerObservation, m *corev1.Pod) {
	known := func(spec *corev1.Container, once string) {
		define(c, spec)
		o.sizes[c.GetId()] = resources.Of(&spec.Resources)
		once += c.GetName() + " " + c.GetHash()
		o.began[once]++
		if never(m, spec) && o.began[once] > 1 {
			w.sin("%s: container %s started again under restartPolicy Never", alias, c.GetName())
		}
	}
	mainBefore := false
	for i := range m.Spec.Containers {
		mainBefore = mainBefore || o.first[inSandbox(c, m.Spec.Containers[i].Name)]
	}
	for i := range m.Spec.InitContainers {
		spec := &m.Spec.InitContainers[i]
		if spec.Name == c.GetName() {
			o.inits[c.GetId()] = !sidecar(spec)
			// It may run once in each sandbox.
			known(spec, c.GetSandboxId()+" ")
			if mainBefore && !sidecar(spec) && !restartsAll(m) {
				w.sin("%s: init container %s started after a main container", alias, spec.Name)
			}
			break
		}
		if w.passed(o, c, m, i, mainBefore) {
			continue
		}
		w.sin("%s: container %s started before init container %s was through", alias, c.GetName(), spec.Name)
	}
	for i := range m.Spec.Containers {
		if spec := &m.Spec.Containers[i]; spec.Name == c.GetName() {
			known(spec, "")
		}
	}
	o.first[inSandbox(c, c.GetName())] = true
}

// expect notes the starts under way that an earlier manifest led to: what a later one puts before them comes too late to
// hold up anything.
func (o *objects) expect(calls []*journaletv1.Call, start *journaletv1.StartContainer, uid string) {
	clear(o.expected)
	for _, c := range calls {
		other := c.GetRequest().GetStartContainer()
		if other != nil && c.GetRequest().GetPodUid() == uid && other.GetDigest() != start.GetDigest() {
			o.expected[other.GetSandboxId()+" "+other.GetContainer()] = true
		}
	}
}

// passed tells whether what stands behind an init container may start beside a container of the same sandbox. One behind
// which another one has been started is no longer asked about.
func (w *world) passed(o *objects, c *journaletv1.ContainerObservation, m *corev1.Pod, i int, mainBefore bool) bool {
	spec := &m.Spec.InitContainers[i]
	for j := range m.Spec.Containers {
		mainBefore = mainBefore || o.expected[inSandbox(c, m.Spec.Containers[j].Name)]
	}
	for j := i + 1; j < len(m.Spec.InitContainers); j++ {
		mainBefore = mainBefore || o.first[inSandbox(c, m.Spec.InitContainers[j].Name)]
	}
	if sidecar(spec) {
		return mainBefore || o.first[inSandbox(c, spec.Name)]
	}
	return mainBefore || o.doneWell[inSandbox(c, spec.Name)]
}

// endInit ends an init container that runs, as its program would; false if there is none.
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
