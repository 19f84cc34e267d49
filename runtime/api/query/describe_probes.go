package query

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

func probesSet(s *journaletv1.ProbesSet) string {
	if len(s.GetKinds()) == 0 {
		return "end the probes of container " + s.GetContainer()
	}
	var kinds []string
	for _, k := range s.GetKinds() {
		kinds = append(kinds, probeKind(k))
	}
	return fmt.Sprintf("run the %s probe of container %s", strings.Join(kinds, " and the "), s.GetContainer())
}

func probeResult(r *journaletv1.ProbeResult) string {
	verb := "fails"
	if r.GetSuccess() {
		verb = "succeeds"
	}
	return withMessage(fmt.Sprintf("the %s probe of container %s %s", probeKind(r.GetKind()), r.GetContainer(), verb), r.GetMessage())
}

func probeKind(k journaletv1.ProbeKind) string { return enumName(k.String(), "PROBE_KIND_") }

// probed tells the failures of probes, and the successes that came with a warning.
func (p *podEvents) probed(r *journaletv1.ProbeResult, add addEvent) {
	switch {
	case r.GetUid() != p.ref.ID || r.GetMessage() == "":
	case r.GetSuccess():
		add(corev1.EventTypeWarning, "ProbeWarning", "container %s: %s", r.GetContainer(), r.GetMessage())
	default:
		add(corev1.EventTypeWarning, "Unhealthy", "container %s: %s", r.GetContainer(), r.GetMessage())
	}
}

func gatesSet(g *journaletv1.ReadinessGatesSet) string {
	if len(g.GetTypes()) == 0 {
		return "read no conditions of readiness gates any more"
	}
	return "read the conditions of readiness gates: " + strings.Join(g.GetTypes(), ", ")
}

func gatesRead(g *journaletv1.ReadinessGatesRead) string {
	var said []string
	for _, c := range g.GetConditions() {
		said = append(said, c.GetType()+" is "+c.GetStatus())
	}
	if len(said) == 0 {
		return "of the conditions of readiness gates nothing is said"
	}
	return "it is said that " + strings.Join(said, ", ")
}
