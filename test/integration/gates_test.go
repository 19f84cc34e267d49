//go:build integration

package integration

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestReadinessGateWaitsForItsCondition(t *testing.T) {
	t.Parallel()
	const gate = "example.com/lb"
	a := started(t, onePod("gated", idle, func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	}))
	p := a.pod("gated", "has its containers ready", func(p *corev1.Pod) bool {
		return condition(p, corev1.ContainersReady) == corev1.ConditionTrue
	})
	if ready(p) {
		t.Fatal("it is ready without its condition")
	}
	file := filepath.Join(a.Root, "pods", string(p.UID), "conditions.yaml")
	writeFile(t, file, gate+": True\n")
	a.pod("gated", "ready", ready)
	a.crash()
	if p := a.podNow("gated"); !ready(p) || container(p, "main").RestartCount != 0 {
		t.Errorf("after a restart of the agent: %v", p.Status.Conditions)
	}
	writeFile(t, file, gate+": False\n")
	p = a.pod("gated", "not ready any more", func(p *corev1.Pod) bool { return !ready(p) })
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && (c.Reason != "ReadinessGatesNotReady" || !strings.Contains(c.Message, gate)) {
			t.Errorf("condition %+v", c)
		}
	}
	a.Verified()
}
