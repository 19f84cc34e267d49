package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// The kinds of probes, short.
const (
	startupProbe   = journaletv1.ProbeKind_PROBE_KIND_STARTUP
	livenessProbe  = journaletv1.ProbeKind_PROBE_KIND_LIVENESS
	readinessProbe = journaletv1.ProbeKind_PROBE_KIND_READINESS
)

// started reports whether a container has started: it runs, its postStart hook succeeded, and so did its startup probe,
// if any. What comes after a sidecar waits for this.
func (a *Actor) started(c *corev1.Container) bool {
	r := a.record(c.Name)
	return isUp(c, r) && (c.StartupProbe == nil || a.succeeded(r, probesOf(r).GetStartup()))
}

// ready reports whether a container is ready: it has started, and its readiness probe, if any, last succeeded.
func (a *Actor) ready(c *corev1.Container) bool {
	r := a.record(c.Name)
	return a.started(c) && (c.ReadinessProbe == nil || a.succeeded(r, probesOf(r).GetReadiness()))
}

// succeeded reports whether a probe of a container last succeeded. One without a result did if the container was found
// running, and the API server shows it ready.
func (a *Actor) succeeded(r *journaletv1.ContainerRecord, last *journaletv1.ProbeResult) bool {
	if last == nil {
		return slices.Contains(a.state.GetPod().GetApi().GetReadyContainers(), r.GetCurrent().GetId())
	}
	return last.GetSuccess()
}

// isUp reports whether a container is observed to run, with its postStart hook done.
func isUp(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	return running(r.GetCurrent()) && r.GetCurrent().GetStartedAt() != nil && postStarted(c, r)
}

// probesOf returns the probe results of a container's newest instance, or nil.
func probesOf(r *journaletv1.ContainerRecord) *journaletv1.ContainerProbes {
	if p := r.GetProbes(); p.GetContainerId() == r.GetCurrent().GetId() {
		return p
	}
	return nil
}

// failedProbe reports whether a probe has a result that is a failure.
func failedProbe(r *journaletv1.ProbeResult) bool { return r != nil && !r.GetSuccess() }

// Probed is which probes of one instance run, and their last results.
type Probed struct {
	Set     *journaletv1.ProbesSet
	Results []*journaletv1.ProbeResult
}

// Probed returns which probes run, and their last results, by container. The driver receives them at a start of the
// agent.
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

// postStarted reports whether a container's newest instance has no postStart hook to wait for.
func postStarted(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	return c.Lifecycle == nil || c.Lifecycle.PostStart == nil || r.GetPostStartedId() == r.GetCurrent().GetId()
}

// handler returns a container's hook of a kind, nil for a container without one.
func handler(c *corev1.Container, kind journaletv1.HookKind) *corev1.LifecycleHandler {
	switch {
	case c.Lifecycle == nil:
		return nil
	case kind == postStartHook:
		return c.Lifecycle.PostStart
	}
	return c.Lifecycle.PreStop
}

// gate returns the condition of this type, nil if it is missing.
func (a *Actor) gate(kind string) *journaletv1.ReadinessGateCondition {
	for _, c := range a.state.GetGateConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// Gates returns the conditions to be read, and their last values. The driver receives them at a start of the agent.
func (a *Actor) Gates() (types []string, said []*journaletv1.ReadinessGateCondition) {
	return a.state.GetReadinessGates(), a.state.GetGateConditions()
}
