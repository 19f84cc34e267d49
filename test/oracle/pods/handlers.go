package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// AddLifecycle adds valid or invalid init containers and sidecars, probes, hooks, restart rules and a deadline to a
// pod.
func (m *Generator) AddLifecycle(p *corev1.Pod) {
	s := &p.Spec
	s.ActiveDeadlineSeconds = maybe(m, 20,
		func() int64 { return value(m, []int64{1, 60, 1<<31 - 1}, []int64{0, -1, 1 << 31}) })
	for i := range s.Containers {
		m.lifecycle(&s.Containers[i], false)
	}
	ports := map[int32]bool{}
	for i := range m.N(3) {
		c := m.container(i, s, ports)
		c.Name = value(m, []string{"i" + string(rune('0'+i))}, []string{"c0", "i0", ""})
		sidecar := m.Chance(40)
		if sidecar {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		} else {
			c.Ports = nil
		}
		m.lifecycle(&c, !sidecar && m.N(1000) >= m.Bad)
		s.InitContainers = append(s.InitContainers, c)
	}
}

func (m *Generator) lifecycle(c *corev1.Container, ordinaryInit bool) {
	if !ordinaryInit {
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = m.anyProbe(25, c, true), m.anyProbe(25, c, false),
			m.anyProbe(20, c, true)
		if m.Chance(25) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: m.hook(60, c), PreStop: m.hook(60, c)}
		}
	}
	if c.RestartPolicy != nil || !m.Chance(20) {
		return
	}
	policy := value(m, []corev1.ContainerRestartPolicy{"Never", "OnFailure"},
		[]corev1.ContainerRestartPolicy{"", "always"})
	c.RestartPolicy = &policy
	c.RestartPolicyRules = some(m, 50, 2, func(int) corev1.ContainerRestartRule { return m.rule() })
}

func (m *Generator) rule() corev1.ContainerRestartRule {
	r := corev1.ContainerRestartRule{
		Action: value(m, []corev1.ContainerRestartRuleAction{"Restart"},
			[]corev1.ContainerRestartRuleAction{"", "Stop", "RestartAllContainers"}),
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: value(m, []corev1.ContainerRestartRuleOnExitCodesOperator{"In", "NotIn"},
				[]corev1.ContainerRestartRuleOnExitCodesOperator{"", "Is"}),
			Values: []int32{value(m, []int32{0, 1, 255, 42}, []int32{-1, 256})},
		},
	}
	if m.N(1000) < m.Bad {
		r.ExitCodes = Pick(m, nil, &corev1.ContainerRestartRuleOnExitCodes{Operator: "In"})
	}
	return r
}

// anyProbe returns a probe. Only liveness and startup probes may have a grace period.
func (m *Generator) anyProbe(percent int, c *corev1.Container, ends bool) *corev1.Probe {
	return maybe(m, percent, func() corev1.Probe {
		small := func() int32 { return value(m, []int32{0, 1, 2, 30}, []int32{-1}) }
		p := corev1.Probe{InitialDelaySeconds: small(), TimeoutSeconds: small(), PeriodSeconds: small(),
			FailureThreshold: small()}
		p.SuccessThreshold = value(m, []int32{0, 1}, []int32{2, -1})
		if ends {
			p.TerminationGracePeriodSeconds = maybe(m, 15, func() int64 { return value(m, []int64{1, 30}, []int64{0, -1}) })
		} else if m.N(1000) < m.Bad {
			p.TerminationGracePeriodSeconds = maybe(m, 50, func() int64 { return 5 })
		}
		switch m.N(4) {
		case 0:
			p.Exec = m.exec()
		case 1:
			p.HTTPGet = m.httpGet(c)
		case 2:
			p.TCPSocket = &corev1.TCPSocketAction{Port: m.target(c), Host: Pick(m, "", "", "127.0.0.1")}
		case 3:
			p.GRPC = &corev1.GRPCAction{Port: value(m, []int32{1, 65535}, []int32{0, 65536}),
				Service: maybe(m, 50, func() string { return Pick(m, "", "health") })}
		}
		if m.N(1000) < m.Bad {
			p.Exec = m.exec()
		}
		if m.N(1000) < m.Bad {
			p.ProbeHandler = corev1.ProbeHandler{}
		}
		return p
	})
}

func (m *Generator) exec() *corev1.ExecAction {
	return &corev1.ExecAction{Command: some(m, 95, 2, m.word)}
}

func (m *Generator) httpGet(c *corev1.Container) *corev1.HTTPGetAction {
	return &corev1.HTTPGetAction{
		Path: value(m, []string{"", "/", "/healthz?x=1", "no-slash"}, nil), Port: m.target(c),
		Host:   Pick(m, "", "", "127.0.0.1"),
		Scheme: value(m, []corev1.URIScheme{"", "HTTP", "HTTPS"}, []corev1.URIScheme{"http", "ftp"}),
		HTTPHeaders: some(m, 30, 2, func(int) corev1.HTTPHeader {
			return corev1.HTTPHeader{Name: value(m, []string{"Accept", "X-Custom"}, []string{"", "a b", "ü"}),
				Value: Pick(m, "", "x")}
		}),
	}
}

func (m *Generator) target(c *corev1.Container) intstr.IntOrString {
	if len(c.Ports) > 0 && c.Ports[0].Name != "" && m.Chance(30) {
		return intstr.FromString(c.Ports[0].Name)
	}
	return value(m,
		[]intstr.IntOrString{intstr.FromInt32(80), intstr.FromInt32(1), intstr.FromInt32(65535), intstr.FromString("http")},
		[]intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(65536), intstr.FromString(""),
			intstr.FromString("NOT A NAME")})
}

func (m *Generator) hook(percent int, c *corev1.Container) *corev1.LifecycleHandler {
	return maybe(m, percent, func() corev1.LifecycleHandler {
		h := corev1.LifecycleHandler{}
		switch m.N(4) {
		case 0:
			h.Exec = m.exec()
		case 1:
			h.HTTPGet = m.httpGet(c)
		case 2:
			h.TCPSocket = &corev1.TCPSocketAction{Port: m.target(c)}
		case 3:
			h.Sleep = &corev1.SleepAction{Seconds: value(m, []int64{0, 1}, []int64{-1, 100000})}
		}
		if m.N(1000) < m.Bad {
			h = corev1.LifecycleHandler{}
		}
		return h
	})
}
