package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// gate is what is said of a condition, nil if nothing is.
func (a *Actor) gate(kind string) *journaletv1.ReadinessGateCondition {
	for _, c := range a.state.GetGateConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// Gates are the conditions to be read, and what was last said of them. Who reads them is given it at a start of the agent.
func (a *Actor) Gates() (types []string, said []*journaletv1.ReadinessGateCondition) {
	return a.state.GetReadinessGates(), a.state.GetGateConditions()
}

// postStarted tells whether a container's newest instance has no postStart hook to wait for.
func postStarted(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	return c.Lifecycle == nil || c.Lifecycle.PostStart == nil || r.GetPostStartedId() == r.GetCurrent().GetId()
}

// handler is what a container's hook of a kind does, nil for a container without one.
func handler(c *corev1.Container, kind journaletv1.HookKind) *corev1.LifecycleHandler {
	switch {
	case c.Lifecycle == nil:
		return nil
	case kind == postStartHook:
		return c.Lifecycle.PostStart
	}
	return c.Lifecycle.PreStop
}

// The kinds of probes, short.
const (
	startupProbe   = journaletv1.ProbeKind_PROBE_KIND_STARTUP
	livenessProbe  = journaletv1.ProbeKind_PROBE_KIND_LIVENESS
	readinessProbe = journaletv1.ProbeKind_PROBE_KIND_READINESS
)

// started tells whether a container's start is over: it runs, its postStart hook ended well and its startup probe, if
// any, succeeded. What comes after a sidecar waits for this.
func (a *Actor) started(c *corev1.Container) bool {
	r := a.record(c.Name)
	return isUp(c, r) && (c.StartupProbe == nil || probesOf(r).GetStartup().GetSuccess())
}

// ready tells whether a container may be given work: its start is over, and its readiness probe, if any, has last
// succeeded.
func (a *Actor) ready(c *corev1.Container) bool {
	return a.started(c) && (c.ReadinessProbe == nil || probesOf(a.record(c.Name)).GetReadiness().GetSuccess())
}

// isUp tells whether a container is seen to run, with its postStart hook behind it.
func isUp(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	return running(r.GetCurrent()) && r.GetCurrent().GetStartedAt() != nil && postStarted(c, r)
}

// probesOf is what is known of the probes of a container's newest instance, nil if nothing is.
func probesOf(r *journaletv1.ContainerRecord) *journaletv1.ContainerProbes {
	if p := r.GetProbes(); p.GetContainerId() == r.GetCurrent().GetId() {
		return p
	}
	return nil
}

// failedProbe tells whether a probe has a result and it is a failure.
func failedProbe(r *journaletv1.ProbeResult) bool { return r != nil && !r.GetSuccess() }

// Probed is what is to be probed of one instance, and what was told of it before.
type Probed struct {
	Set     *journaletv1.ProbesSet
	Results []*journaletv1.ProbeResult
}

// Probed lists what is being probed, by container. Who runs the probes is given it at a start of the agent.
func (a *Actor) Probed() []Probed {
	var all []Probed
	for _, name := range slices.Sorted(maps.Keys(a.state.Containers)) {
		r := a.state.Containers[name]
		p := probesOf(r)
		if len(p.GetKinds()) == 0 {
			continue
		}
		one := Probed{Set: &journaletv1.ProbesSet{
			Container: name, ContainerId: p.GetContainerId(), Kinds: p.GetKinds(), Digest: a.state.GetPod().GetDigest(),
			PodIps: a.podIPs(), StartedAt: r.GetCurrent().GetStartedAt(),
		}}
		for _, result := range []*journaletv1.ProbeResult{p.GetStartup(), p.GetLiveness(), p.GetReadiness()} {
			if result != nil {
				one.Results = append(one.Results, result)
			}
		}
		all = append(all, one)
	}
	return all
}
