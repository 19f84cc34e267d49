package pod

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveProbesSet folds which probes of an instance run. Results stay with their instance.
func (a *Actor) evolveProbesSet(s *journaletv1.ProbesSet) {
	r := a.ensureRecord(s.GetContainer())
	if r.GetProbes().GetContainerId() != s.GetContainerId() {
		r.Probes = &journaletv1.ContainerProbes{ContainerId: s.GetContainerId()}
	}
	r.Probes.Kinds = s.GetKinds()
}

// evolveProbeResult folds a result that changed, or that has a first warning. A result of an older instance, or of a
// probe that no longer runs, comes too late to matter.
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

// evolveStopRequested records that an instance is stopped because its probes found it unhealthy. The exit code of one
// that ends by itself before that counts.
func (a *Actor) evolveStopRequested(name, id string) {
	r := a.state.Containers[name]
	p := probesOf(r)
	if p.GetContainerId() == id && (failedProbe(p.GetStartup()) || failedProbe(p.GetLiveness())) {
		r.StoppedAsUnhealthy = true
	}
}

// evolveGatesRead folds the conditions of the readiness gates. Those of a pod whose gates are no longer read are
// ignored.
func (a *Actor) evolveGatesRead(e actors.Event, k *journaletv1.ReadinessGatesRead) {
	s := a.state
	if len(s.GetReadinessGates()) == 0 {
		return
	}
	var now []*journaletv1.ReadinessGateCondition
	for _, c := range k.GetConditions() {
		since := timestamppb.New(e.Time)
		if old := a.gate(c.GetType()); old.GetStatus() == c.GetStatus() {
			since = old.GetLastTransition()
		}
		now = append(now, &journaletv1.ReadinessGateCondition{
			Type: c.GetType(), Status: c.GetStatus(), LastTransition: since,
		})
	}
	s.GateConditions = now
}
