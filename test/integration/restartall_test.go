//go:build integration

package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestARuleRestartsAllContainersInTheirSandbox(t *testing.T) {
	t.Parallel()
	never := corev1.ContainerRestartPolicyNever
	a := started(t, onePod("all", "test $(wc -l < /v/inits) -gt 1 && { "+idle+"; }; exit 88", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.InitContainers = []corev1.Container{shell("init", "echo ran >> /v/inits")}
		p.Spec.Containers = append(p.Spec.Containers, shell("other", idle))
		p.Spec.Containers[0].RestartPolicy = &never
		p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
			Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{88}},
		}}
	}, scratch, func(p *corev1.Pod) { p.Spec.InitContainers[0].VolumeMounts = p.Spec.Containers[0].VolumeMounts }))
	p := a.pod("all", "ready in its second round", func(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount > 0 })
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if c.RestartCount != 1 {
			t.Errorf("%s was started again %d times, want once", c.Name, c.RestartCount)
		}
	}
	if end := container(p, "main").LastTerminationState.Terminated; end == nil || end.ExitCode != 88 {
		t.Errorf("main ended before with %v", end)
	}
	if n := len(a.sandboxes()); n != 1 {
		t.Errorf("%d sandboxes, want the one of the first round", n)
	}
	a.Verified()
}
