package pod

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// due returns the probes that a container's newest instance is to be probed with, sorted.
func (d *step) due(c *corev1.Container, r *journaletv1.ContainerRecord) []journaletv1.ProbeKind {
	stage := d.state.GetStage()
	if c == nil || stage != runningPod && stage != terminating || d.LeftAlone() || !isUp(c, r) ||
		d.wasStopped(r.GetCurrent()) {
		return nil
	}
	p := probesOf(r)
	if c.StartupProbe != nil && !p.GetStartup().GetSuccess() {
		if stage == terminating || failedProbe(p.GetStartup()) {
			return nil
		}
		return []journaletv1.ProbeKind{startupProbe}
	}
	var kinds []journaletv1.ProbeKind
	// An instance that was found unhealthy is not probed again: it is being stopped.
	if c.LivenessProbe != nil && stage == runningPod && !failedProbe(p.GetLiveness()) {
		kinds = append(kinds, livenessProbe)
	}
	if c.ReadinessProbe != nil {
		kinds = append(kinds, readinessProbe)
	}
	return kinds
}

// setProbes emits which probes of each container run from now on, where that has changed. After an update it does so in
// any case: the new manifest may have other probes.
func (d *step) setProbes(in actors.Input) {
	updated := slices.ContainsFunc(in.Events, func(e actors.Event) bool {
		return e.Body.GetPodUpdated().GetOperation() == journaletv1.PodOperation_POD_OPERATION_UPDATE
	})
	for _, name := range slices.Sorted(maps.Keys(d.state.Containers)) {
		r := d.state.Containers[name]
		set, kinds := r.GetProbes(), d.due(d.spec(name), r)
		same := set.GetContainerId() == r.GetCurrent().GetId() && slices.Equal(set.GetKinds(), kinds) && !updated
		if same || len(kinds) == 0 && len(set.GetKinds()) == 0 {
			continue
		}
		next := &journaletv1.ProbesSet{Container: name, ContainerId: set.GetContainerId()}
		if len(kinds) > 0 {
			next = &journaletv1.ProbesSet{
				Container: name, ContainerId: r.GetCurrent().GetId(), Kinds: kinds, Digest: d.state.GetPod().GetDigest(),
				PodIps: d.podIPs(), StartedAt: r.GetCurrent().GetStartedAt(),
			}
		}
		d.decide(next)
	}
}

// probe ends a running instance that its probes found unhealthy, unless its stop was just requested.
func (d *step) probe(c *corev1.Container) {
	r := d.record(c.Name)
	if d.calling(forContainer(c.Name)) {
		return
	}
	switch p := probesOf(r); {
	case failedProbe(p.GetStartup()):
		d.terminateContainer(r.GetCurrent(), d.unhealthy(c, "startup"), d.probeGrace(c.StartupProbe))
	case failedProbe(p.GetLiveness()):
		d.terminateContainer(r.GetCurrent(), d.unhealthy(c, "liveness"), d.probeGrace(c.LivenessProbe))
	}
}

// probeGrace returns the grace period after a failed probe. The probe's own comes before the pod's, be it shorter or
// longer.
func (d *step) probeGrace(p *corev1.Probe) time.Duration {
	if p == nil || p.TerminationGracePeriodSeconds == nil {
		return d.grace()
	}
	return graceOf(*p.TerminationGracePeriodSeconds)
}

// unhealthy returns why a container is stopped after a failed probe, in the kubelet's words.
func (d *step) unhealthy(c *corev1.Container, probe string) string {
	text := fmt.Sprintf("ontainer %s failed %s probe", c.Name, probe)
	switch {
	case slices.ContainsFunc(d.manifest.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name }):
		return "Init c" + text
	case d.policyRestarts(c, 0, true):
		return "C" + text + ", will be restarted"
	}
	return "C" + text
}

// setGates emits which conditions are to be read, when that has changed.
func (d *step) setGates() {
	var types []string
	if s := d.state.GetStage(); d.manifest != nil && (s == runningPod || s == terminating) {
		for _, gate := range d.manifest.Spec.ReadinessGates {
			types = append(types, string(gate.ConditionType))
		}
		slices.Sort(types)
		types = slices.Compact(types)
	}
	if slices.Equal(types, d.state.GetReadinessGates()) {
		return
	}
	d.decide(&journaletv1.ReadinessGatesSet{Types: types, Api: d.ofAPI()})
}
