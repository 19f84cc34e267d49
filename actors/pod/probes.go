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

// due are the probes that a container's newest instance is to be probed with, sorted.
func (d *step) due(c *corev1.Container, r *journaletv1.ContainerRecord) []journaletv1.ProbeKind {
	stage := d.state.GetStage()
	if c == nil || stage != runningPod && stage != terminating || !isUp(c, r) || d.wasStopped(r.GetCurrent()) {
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
	// An instance that was found unhealthy is asked no more: it is on its way out.
	if c.LivenessProbe != nil && stage == runningPod && !failedProbe(p.GetLiveness()) {
		kinds = append(kinds, livenessProbe)
	}
	if c.ReadinessProbe != nil {
		kinds = append(kinds, readinessProbe)
	}
	return kinds
}

// setProbes says for every container which probes are run from now on, where that is not so already. A new manifest is
// told to who runs them, since it may have other ones.
func (d *step) setProbes(in actors.Input) error {
	news := slices.ContainsFunc(in.Events, func(e actors.Event) bool {
		return e.Body.GetPodUpdated().GetOperation() == journaletv1.PodOperation_POD_OPERATION_UPDATE
	})
	for _, name := range slices.Sorted(maps.Keys(d.state.Containers)) {
		r := d.state.Containers[name]
		set, kinds := r.GetProbes(), d.due(d.spec(name), r)
		same := set.GetContainerId() == r.GetCurrent().GetId() && slices.Equal(set.GetKinds(), kinds) && !news
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
		if err := d.emit(&journaletv1.Event{Kind: &journaletv1.Event_ProbesSet{ProbesSet: next}}); err != nil {
			return err
		}
	}
	return nil
}

// probe ends a running instance that its probes found unhealthy, unless its stop has just been asked for.
func (d *step) probe(c *corev1.Container) error {
	r := d.record(c.Name)
	if d.calling(forContainer(c.Name)) {
		return nil
	}
	switch p := probesOf(r); {
	case failedProbe(p.GetStartup()):
		return d.end(r.GetCurrent(), d.unhealthy(c, "startup"), d.probeGrace(c.StartupProbe))
	case failedProbe(p.GetLiveness()):
		return d.end(r.GetCurrent(), d.unhealthy(c, "liveness"), d.probeGrace(c.LivenessProbe))
	}
	return nil
}

// probeGrace is what a container gets to end after a probe of it failed: the probe's own grace period comes before the
// pod's, be it shorter or longer.
func (d *step) probeGrace(p *corev1.Probe) time.Duration {
	if p == nil || p.TerminationGracePeriodSeconds == nil {
		return d.grace()
	}
	return time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
}

// unhealthy is why a container is stopped of which a probe failed, in the kubelet's words.
func (d *step) unhealthy(c *corev1.Container, probe string) string {
	text := fmt.Sprintf("ontainer %s failed %s probe", c.Name, probe)
	switch {
	case slices.ContainsFunc(d.manifest.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name }):
		return "Init c" + text
	case d.policySays(c, 0, true):
		return "C" + text + ", will be restarted"
	}
	return "C" + text
}

// evolveProbesSet folds which probes of an instance are run. Results stay with their instance.
func (a *Actor) evolveProbesSet(s *journaletv1.ProbesSet) {
	r := a.keep(s.GetContainer())
	if r.GetProbes().GetContainerId() != s.GetContainerId() {
		r.Probes = &journaletv1.ContainerProbes{ContainerId: s.GetContainerId()}
	}
	r.Probes.Kinds = s.GetKinds()
}

// evolveProbeResult folds a result that changed. One of another instance than the newest, or of a probe that is no
// longer run, comes too late to matter.
func (a *Actor) evolveProbeResult(p *journaletv1.ProbeResult) {
	r := a.state.Containers[p.GetContainer()]
	set := probesOf(r)
	if set.GetContainerId() != p.GetContainerId() || !slices.Contains(set.GetKinds(), p.GetKind()) {
		return
	}
	switch p.GetKind() {
	case startupProbe:
		set.Startup = p
	case livenessProbe:
		set.Liveness = p
	case readinessProbe:
		set.Readiness = p
	}
}

// evolveEndAsked notes that an instance is ended because its probes found it unhealthy. One that ends by itself before that
// has an exit code that counts.
func (a *Actor) evolveEndAsked(name, id string) {
	r := a.state.Containers[name]
	p := probesOf(r)
	if p.GetContainerId() == id && (failedProbe(p.GetStartup()) || failedProbe(p.GetLiveness())) {
		r.StoppedAsUnhealthy = true
	}
}

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
