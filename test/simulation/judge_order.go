package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// What must hold of init containers: each in its turn, sidecars among them, and main ones behind them.

// inOrder: what stands before a container in its manifest has ended well, or, as a sidecar, was started. One behind which
// another has been started is no longer asked about.
func (j *judge) inOrder(h *podHistory, c *container) {
	if in := j.intents[c.intent]; in == nil || h.restartedAll && j.journalLost {
		return
	}
	m := c.manifest
	begun := func(name string) bool {
		return h.created[c.inSandbox(name)] && name != c.name || h.started[c.inSandbox(name)]
	}
	mains := slices.ContainsFunc(m.Spec.Containers, func(x corev1.Container) bool { return begun(x.Name) }) || h.hadEarlierInstance(c)
	if c.once && slices.ContainsFunc(m.Spec.Containers, func(x corev1.Container) bool { return h.started[c.inSandbox(x.Name)] && j.mayKnow(c, x.Name) }) {
		j.broken(initOrder, c.uid, "init container %s starts after a main container", c.name)
	}
	for i := range m.Spec.InitContainers {
		spec := &m.Spec.InitContainers[i]
		if spec.Name == c.name {
			return
		}
		behind := slices.ContainsFunc(m.Spec.InitContainers[i+1:], func(x corev1.Container) bool { return begun(x.Name) })
		through := h.succeeded[c.inSandbox(spec.Name)] || isSidecar(spec) && h.started[c.inSandbox(spec.Name)]
		if !through && !mains && !behind {
			j.broken(initOrder, c.uid, "%s starts before init container %s was through", c.name, spec.Name)
		}
	}
}

// mayKnow tells whether an agent can know that another container was started in the sandbox of one. That of one which is gone, and which the
// lost part of the journal told of, it cannot.
func (j *judge) mayKnow(c *container, name string) bool {
	return !j.journalLost || slices.ContainsFunc(j.sim.world.objectsOf(c.uid).containers, func(x *container) bool {
		return x.inSandbox(x.name) == c.inSandbox(name)
	})
}

// hadEarlierInstance tells whether an instance of a main container was made before it in the same sandbox, even if it never ran: with
// it the pod was initialized, as with the kubelet.
func (h *podHistory) hadEarlierInstance(c *container) bool {
	return !isInit(c.manifest, c.name) && h.instances[c.inSandbox(c.name)] > 1
}
