//go:build integration

package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestRestartAllContainersRuleKeepsTheSandbox(t *testing.T) {
	t.Parallel()
	never := corev1.ContainerRestartPolicyNever
	onExit := &corev1.ContainerRestartRuleOnExitCodes{
		Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{88},
	}
	a := started(t, onePod("all", "test $(wc -l < /v/inits) -gt 1 && { "+idle+"; }; exit 88",
		restarts(corev1.RestartPolicyNever), withInit(shell("init", "echo ran >> /v/inits")), with(shell("other", idle)),
		scratch, func(p *corev1.Pod) {
			p.Spec.InitContainers[0].VolumeMounts = p.Spec.Containers[0].VolumeMounts
			p.Spec.Containers[0].RestartPolicy = &never
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action: corev1.ContainerRestartRuleActionRestartAllContainers, ExitCodes: onExit,
			}}
		}))
	p := a.pod("all", "ready after the restart", restarted)
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if c.RestartCount != 1 {
			t.Errorf("%s was started again %d times, want once", c.Name, c.RestartCount)
		}
	}
	if end := container(p, "main").LastTerminationState.Terminated; end == nil || end.ExitCode != 88 {
		t.Errorf("main ended before with %v", end)
	}
	a.wantSandboxes(1)
	a.Verified()
}
