package describe

import (
	"fmt"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

func probesSet(s *journaletv1.ProbesSet) string {
	if len(s.GetKinds()) == 0 {
		return "stopped the probes of container " + s.GetContainer()
	}
	var kinds []string
	for _, k := range s.GetKinds() {
		kinds = append(kinds, probeKind(k))
	}
	return fmt.Sprintf("started the %s probe of container %s", strings.Join(kinds, " and the "), s.GetContainer())
}

func probeResult(r *journaletv1.ProbeResult) string {
	verb := "failed"
	if r.GetSuccess() {
		verb = "succeeded"
	}
	if r.GetMessage() == "" {
		return fmt.Sprintf("%s probe of container %s %s", probeKind(r.GetKind()), r.GetContainer(), verb)
	}
	return withMessage("container "+r.GetContainer(), r.GetMessage()) // the message names the probe and its result
}

func probeKind(k journaletv1.ProbeKind) string { return Enum(k.String(), "PROBE_KIND_") }

func readinessGatesSet(g *journaletv1.ReadinessGatesSet) string {
	if len(g.GetTypes()) == 0 {
		return "stopped reading readiness gate conditions"
	}
	from := ""
	if g.GetApi() {
		from = " of the API server"
	}
	return "reading readiness gate conditions" + from + ": " + strings.Join(g.GetTypes(), ", ")
}

func readinessGatesRead(g *journaletv1.ReadinessGatesRead) string {
	var conditions []string
	for _, c := range g.GetConditions() {
		conditions = append(conditions, c.GetType()+"="+c.GetStatus())
	}
	if len(conditions) == 0 {
		return "readiness gate conditions: none reported"
	}
	return "readiness gate conditions: " + strings.Join(conditions, ", ")
}
