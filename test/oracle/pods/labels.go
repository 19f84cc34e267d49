package pods

import (
	corev1 "k8s.io/api/core/v1"
)

// AddLabels adds to a pod its labels of SELinux and AppArmor, proc mounts if it has users of its own, and read-only
// mounts below its mounts.
func (m *Generator) AddLabels(p *corev1.Pod) {
	s := &p.Spec
	if m.Chance(60) {
		if s.SecurityContext == nil {
			s.SecurityContext = &corev1.PodSecurityContext{}
		}
		s.SecurityContext.SELinuxOptions, s.SecurityContext.AppArmorProfile = m.selinux(), m.apparmor()
	}
	ownUsers := s.HostUsers != nil && !*s.HostUsers
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			m.addLabels(&list[i], ownUsers)
		}
	}
}

func (m *Generator) selinux() *corev1.SELinuxOptions {
	return maybe(m, 30, func() corev1.SELinuxOptions {
		return corev1.SELinuxOptions{
			User: Pick(m, "", "u"), Role: Pick(m, "", "r"), Type: Pick(m, "", "spc_t"), Level: Pick(m, "", "s0:c1,c2"),
		}
	})
}

func (m *Generator) apparmor() *corev1.AppArmorProfile {
	return maybe(m, 20, func() corev1.AppArmorProfile {
		p := corev1.AppArmorProfile{Type: Pick(m, corev1.AppArmorProfileTypeRuntimeDefault,
			corev1.AppArmorProfileTypeUnconfined, corev1.AppArmorProfileTypeLocalhost)}
		if p.Type == corev1.AppArmorProfileTypeLocalhost {
			name := "k8s-nginx"
			p.LocalhostProfile = &name
		}
		return p
	})
}

func (m *Generator) addLabels(c *corev1.Container, ownUsers bool) {
	if m.Chance(50) {
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		c.SecurityContext.SELinuxOptions, c.SecurityContext.AppArmorProfile = m.selinux(), m.apparmor()
		if ownUsers && m.Chance(50) {
			unmasked := corev1.UnmaskedProcMount
			c.SecurityContext.ProcMount = &unmasked
		}
	}
	for i := range c.VolumeMounts {
		v := &c.VolumeMounts[i]
		if !v.ReadOnly || v.MountPropagation != nil && *v.MountPropagation != corev1.MountPropagationNone {
			continue
		}
		v.RecursiveReadOnly = maybe(m, 50, func() corev1.RecursiveReadOnlyMode {
			return Pick(m, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible,
				corev1.RecursiveReadOnlyDisabled)
		})
	}
}
