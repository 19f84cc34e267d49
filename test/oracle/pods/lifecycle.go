package pods

import (
	corev1 "k8s.io/api/core/v1"
)

// The commands of hooks.
const (
	PostStart = "/post-start"
	PreStop   = "/pre-stop"
)

// Lifecycle returns a pod of all kinds of containers: init containers, sidecars, with probes, hooks and restart rules.
func (m *Generator) Lifecycle() *corev1.Pod {
	p := m.Small()
	for i := range p.Spec.Containers {
		m.later(&p.Spec.Containers[i], false)
	}
	for i := range m.N(4) {
		c := corev1.Container{Name: "i" + string(rune('0'+i)), Image: Pick(m, GoodImages...),
			ImagePullPolicy: corev1.PullIfNotPresent}
		sidecar := m.Chance(40)
		if sidecar {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		m.later(&c, !sidecar)
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	return p
}

// later adds probes and rules to a container. An ordinary init container can have no probes.
func (m *Generator) later(c *corev1.Container, ordinaryInit bool) {
	if !ordinaryInit {
		c.LivenessProbe = m.probe(30)
		c.ReadinessProbe = m.probe(30)
		c.StartupProbe = m.probe(20)
		if m.Chance(25) {
			hook := func(path string) *corev1.LifecycleHandler {
				return maybe(m, 60, func() corev1.LifecycleHandler {
					return corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{path}}}
				})
			}
			c.Lifecycle = &corev1.Lifecycle{PostStart: hook(PostStart), PreStop: hook(PreStop)}
		}
	}
	if c.RestartPolicy == nil && m.Chance(25) {
		policy := Pick(m, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure,
			corev1.ContainerRestartPolicyAlways)
		if ordinaryInit && policy == corev1.ContainerRestartPolicyAlways {
			policy = corev1.ContainerRestartPolicyOnFailure // Always would make it a sidecar
		}
		c.RestartPolicy = &policy
		c.RestartPolicyRules = some(m, 50, 2, func(int) corev1.ContainerRestartRule {
			return corev1.ContainerRestartRule{
				Action: corev1.ContainerRestartRuleActionRestart,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
					Operator: Pick(m, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn),
					Values:   []int32{Pick[int32](m, 1, 42, 137)},
				},
			}
		})
	}
}

func (m *Generator) probe(percent int) *corev1.Probe {
	return maybe(m, percent, func() corev1.Probe {
		return corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	})
}
