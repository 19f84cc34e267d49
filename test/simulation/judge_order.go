package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Invariants of init containers: each in its order, sidecars among them, main containers after them.

// inOrder: the init containers before a container in its manifest have succeeded or, as sidecars, were started. An
// init container does not count if one after it was started.
func (j *judge) inOrder(h *podHistory, c *container) {
	if j.lostIntents[c.intent] {
		return // a runtime completed the call of an agent that is gone
	}
	m := c.manifest
	created := func(name string) bool {
		return h.created[c.inSandbox(name)] && name != c.name || h.started[c.inSandbox(name)]
	}
	mains := slices.ContainsFunc(m.Spec.Containers, func(x corev1.Container) bool { return created(x.Name) }) ||
		h.hadEarlierInstance(c)
	if c.once && slices.ContainsFunc(m.Spec.Containers,
		func(x corev1.Container) bool { return h.started[c.inSandbox(x.Name)] }) {
		j.broken(initOrder, c.uid, "init container %s starts after a main container", c.name)
	}
	for i := range m.Spec.InitContainers {
		spec := &m.Spec.InitContainers[i]
		if spec.Name == c.name {
			return
		}
		later := slices.ContainsFunc(m.Spec.InitContainers[i+1:], func(x corev1.Container) bool { return created(x.Name) })
		done := h.succeeded[c.inSandbox(spec.Name)] || isSidecar(spec) && h.started[c.inSandbox(spec.Name)]
		if !done && !mains && !later {
			j.broken(initOrder, c.uid, "%s starts before init container %s is done", c.name, spec.Name)
		}
	}
}

// hadEarlierInstance reports whether a main container had an instance before this one in its sandbox, even if it
// never ran: the pod was initialized then, as with the kubelet.
func (h *podHistory) hadEarlierInstance(c *container) bool {
	return !isInit(c.manifest, c.name) && h.instances[c.inSandbox(c.name)] > 1
}
