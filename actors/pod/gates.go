package pod

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A readiness gate names a condition that somebody outside sets. What they say comes from a file beside the pod (ADR 011), read by
// runtime/pod/gate for as long as the pod may become ready.

// reasonGates is why a pod is not ready whose containers are (pkg/kubelet/status).
const reasonGates = "ReadinessGatesNotReady"

// setGates says which conditions are to be read, when that has changed.
func (d *step) setGates() error {
	var types []string
	if s := d.state.GetStage(); d.manifest != nil && (s == runningPod || s == terminating) {
		for _, gate := range d.manifest.Spec.ReadinessGates {
			types = append(types, string(gate.ConditionType))
		}
		slices.Sort(types)
		types = slices.Compact(types)
	}
	if slices.Equal(types, d.state.GetReadinessGates()) {
		return nil
	}
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_ReadinessGatesSet{ReadinessGatesSet: &journaletv1.ReadinessGatesSet{Types: types}}})
}

// evolveGates takes up what is said of the conditions. Of a pod that is not asked about any more it is no news.
func (a *Actor) evolveGates(e actors.Event, k *journaletv1.ReadinessGatesRead) {
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
		now = append(now, &journaletv1.ReadinessGateCondition{Type: c.GetType(), Status: c.GetStatus(), LastTransition: since})
	}
	s.GateConditions = now
}

// gate is what is said of a condition, nil if nothing is.
func (a *Actor) gate(kind string) *journaletv1.ReadinessGateCondition {
	for _, c := range a.state.GetGateConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// gatesOpen tells whether every condition that the readiness gates name is there and true, in the kubelet's words.
func (a *Actor) gatesOpen() (ok bool, reason, message string) {
	var unready []string
	for _, gate := range a.manifest.Spec.ReadinessGates {
		switch c := a.gate(string(gate.ConditionType)); {
		case c == nil:
			unready = append(unready, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.GetStatus() != string(corev1.ConditionTrue):
			unready = append(unready, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, c.GetStatus()))
		}
	}
	if len(unready) > 0 {
		return false, reasonGates, strings.Join(unready, ", ")
	}
	return true, "", ""
}

// gateConditions are the conditions that somebody outside sets, as the API shows them.
func (a *Actor) gateConditions(generation int64) []corev1.PodCondition {
	var all []corev1.PodCondition
	for _, c := range a.state.GetGateConditions() {
		all = append(all, corev1.PodCondition{
			Type: corev1.PodConditionType(c.GetType()), Status: corev1.ConditionStatus(c.GetStatus()),
			LastTransitionTime: metav1.NewTime(c.GetLastTransition().AsTime()), ObservedGeneration: generation,
		})
	}
	return all
}

// Gates are the conditions to be read, and what was last said of them. Who reads them is given it at a start of the agent.
func (a *Actor) Gates() (types []string, said []*journaletv1.ReadinessGateCondition) {
	return a.state.GetReadinessGates(), a.state.GetGateConditions()
}
