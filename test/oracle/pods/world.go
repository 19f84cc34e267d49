package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddWorld adds to a pod what only a scheduler reads, and what its processes see of the node.
func (m *Generator) AddWorld(p *corev1.Pod) {
	s := &p.Spec
	if m.Chance(20) && !s.HostPID && !s.HostIPC && !s.HostNetwork || m.r.IntN(1000) < m.Bad/2 {
		s.HostUsers = new(bool)
	}
	other := s.HostNetwork || s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN
	if !other && m.Chance(20) || m.r.IntN(1000) < m.Bad/2 {
		name := value(m, []string{"db", "db.example.com", long63}, []string{"", "Db", "a_b", long64 + ".a", long253})
		s.HostnameOverride = &name
	}
	if m.Chance(40) {
		if s.SecurityContext == nil {
			s.SecurityContext = &corev1.PodSecurityContext{}
		}
		m.groups(s.SecurityContext)
	}
	for i := range s.Containers {
		m.ownWorld(s, &s.Containers[i])
	}
	m.scheduling(s)
	s.ImagePullSecrets = some(m, 10, 2, func(int) corev1.LocalObjectReference {
		return corev1.LocalObjectReference{Name: Pick(m, "registry", "")}
	})
}

func (m *Generator) groups(c *corev1.PodSecurityContext) {
	c.FSGroup = m.user()
	c.FSGroupChangePolicy = maybe(m, 30, func() corev1.PodFSGroupChangePolicy {
		return value(m, []corev1.PodFSGroupChangePolicy{"Always", "OnRootMismatch"}, []corev1.PodFSGroupChangePolicy{"", "x"})
	})
	c.SupplementalGroupsPolicy = maybe(m, 30, func() corev1.SupplementalGroupsPolicy {
		return value(m, []corev1.SupplementalGroupsPolicy{"Merge", "Strict"}, []corev1.SupplementalGroupsPolicy{"", "x"})
	})
	c.SELinuxChangePolicy = maybe(m, 30, func() corev1.PodSELinuxChangePolicy {
		return value(m, []corev1.PodSELinuxChangePolicy{"Recursive", "MountOption"},
			[]corev1.PodSELinuxChangePolicy{"", "x"})
	})
	c.SELinuxOptions = maybe(m, 30, func() corev1.SELinuxOptions {
		return corev1.SELinuxOptions{Level: Pick(m, "", "s0:c1")}
	})
}

func (m *Generator) ownWorld(s *corev1.PodSpec, c *corev1.Container) {
	if m.Chance(15) {
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		proc := value(m, []corev1.ProcMountType{"Default"}, []corev1.ProcMountType{"", "Other", "Unmasked"})
		if s.HostUsers != nil && m.Chance(70) {
			proc = corev1.UnmaskedProcMount
		}
		c.SecurityContext.ProcMount = &proc
	}
	if !m.Chance(15) {
		return
	}
	name := corev1.ResourceName("hugepages-" + value(m, []string{"2Mi", "1Gi"}, []string{"", "big", "0", "2.5"}))
	amount := resource.MustParse(value(m, []string{"2Gi", "4Gi"}, []string{"3Ki", "0", "-2Mi"}))
	r := &c.Resources
	if r.Limits == nil {
		r.Limits = corev1.ResourceList{}
	}
	r.Limits[name] = amount
	if m.r.IntN(1000) < m.Bad {
		r.Requests = corev1.ResourceList{name: resource.MustParse(Pick(m, "2Mi", "1Gi", "8Gi"))}
	}
	if m.r.IntN(1000) >= m.Bad {
		r.Limits[corev1.ResourceMemory] = resource.MustParse("16Gi")
	}
}

func (m *Generator) scheduling(s *corev1.PodSpec) {
	s.PreemptionPolicy = maybe(m, 15, func() corev1.PreemptionPolicy {
		return value(m, []corev1.PreemptionPolicy{"Never", "PreemptLowerPriority"}, []corev1.PreemptionPolicy{"", "x"})
	})
	s.TopologySpreadConstraints = some(m, 20, 2, func(i int) corev1.TopologySpreadConstraint {
		c := corev1.TopologySpreadConstraint{
			MaxSkew:     value(m, []int32{1, 5}, []int32{0, -1}),
			TopologyKey: value(m, []string{"zone", "host"}[i:i+1], []string{""}),
			WhenUnsatisfiable: value(m, []corev1.UnsatisfiableConstraintAction{"DoNotSchedule", "ScheduleAnyway"},
				[]corev1.UnsatisfiableConstraintAction{"", "x"}),
			LabelSelector: maybe(m, 70, m.selector),
			NodeAffinityPolicy: maybe(m, 20, func() corev1.NodeInclusionPolicy {
				return value(m, []corev1.NodeInclusionPolicy{"Honor", "Ignore"}, []corev1.NodeInclusionPolicy{"x"})
			}),
		}
		if c.WhenUnsatisfiable == corev1.DoNotSchedule || m.r.IntN(1000) < m.Bad {
			c.MinDomains = maybe(m, 30, func() int32 { return value(m, []int32{1, 3}, []int32{0}) })
		}
		c.MatchLabelKeys = m.matchKeys(c.LabelSelector)
		return c
	})
	if !m.Chance(20) {
		return
	}
	if s.Affinity == nil {
		s.Affinity = &corev1.Affinity{}
	}
	s.Affinity.PodAffinity = maybe(m, 60, func() corev1.PodAffinity {
		return corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: some(m, 70, 2,
			func(int) corev1.PodAffinityTerm { return m.podTerm() })}
	})
	s.Affinity.PodAntiAffinity = maybe(m, 60, func() corev1.PodAntiAffinity {
		return corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: some(m, 70, 2,
			func(int) corev1.WeightedPodAffinityTerm {
				return corev1.WeightedPodAffinityTerm{Weight: value(m, []int32{1, 100}, []int32{0, 101}),
					PodAffinityTerm: m.podTerm()}
			})}
	})
}

func (m *Generator) podTerm() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{
		TopologyKey:   value(m, []string{"zone", "kubernetes.io/hostname"}, []string{"", "a b"}),
		LabelSelector: maybe(m, 70, m.selector), NamespaceSelector: maybe(m, 20, m.selector),
		Namespaces: some(m, 20, 2, func(int) string { return value(m, []string{"x", "kube-system"}, []string{"A", ""}) }),
	}
	t.MatchLabelKeys = m.matchKeys(t.LabelSelector)
	t.MismatchLabelKeys = m.matchKeys(t.LabelSelector)
	if m.r.IntN(1000) >= m.Bad && len(t.MatchLabelKeys) > 0 {
		t.MismatchLabelKeys = nil
	}
	return t
}

func (m *Generator) matchKeys(s *metav1.LabelSelector) []string {
	if s == nil && m.r.IntN(1000) >= m.Bad {
		return nil
	}
	return some(m, 20, 2, func(i int) string {
		return value(m, []string{"version", "hash"}[i:i+1], []string{"", "a b", "app"})
	})
}
