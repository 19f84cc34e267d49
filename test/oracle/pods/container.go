package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The node's images, by their user.
const (
	ImageRoot    = "registry.example/app:1.0"
	ImageNumeric = "registry.example/app:uid"
	ImageNamed   = "registry.example/app:named"
	ImageZero    = "registry.example/app:zero"
)

// GoodImages are valid names of images on the node.
var GoodImages = []string{
	ImageRoot, ImageNumeric, ImageNamed, ImageZero, "busybox", "busybox:latest", "registry.example:5000/a/b",
	"registry.example/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
}

func (m *Generator) podSecurity(s *corev1.PodSpec) corev1.PodSecurityContext {
	c := corev1.PodSecurityContext{
		RunAsUser: m.user(), RunAsGroup: m.user(), RunAsNonRoot: m.flag(), SeccompProfile: m.seccomp(),
		SupplementalGroups: some(m, 25, 3,
			func(int) int64 { return value(m, []int64{0, 1, 2000, 1<<31 - 1}, []int64{-1, 1 << 31}) }),
	}
	seen := map[string]bool{}
	for range m.r.IntN(3) {
		name := value(m, []string{"net.ipv4.tcp_syncookies", "kernel.shm_rmid_forced", "net.ipv4.ip_unprivileged_port_start",
			"net/ipv4/ip_local_port_range", "kernel.msgmax", "vm.swappiness", "fs.mqueue.msg_max",
			"net.ipv4.conf.eth0/1.forwarding", "net.ipv4.tcp_notsent_lowat", "net/core/somaxconn",
			"user.max_net_namespaces"},
			[]string{"", "Kernel.x", "net..x", "a b", strings.Repeat("a", 254), "."})
		if m.r.IntN(1000) >= m.Bad && (seen[name] || s.HostNetwork && strings.HasPrefix(name, "net") ||
			s.HostIPC && (strings.HasPrefix(name, "kernel") || strings.HasPrefix(name, "fs"))) {
			continue
		}
		seen[name] = true
		c.Sysctls = append(c.Sysctls, corev1.Sysctl{Name: name, Value: Pick(m, "1", "", "1024 65535")})
	}
	return c
}

func (m *Generator) user() *int64 {
	return maybe(m, 30, func() int64 { return value(m, []int64{0, 1, 1000, 1<<31 - 1}, []int64{-1, 1 << 31, 1 << 40}) })
}

func (m *Generator) seccomp() *corev1.SeccompProfile {
	return maybe(m, 25, func() corev1.SeccompProfile {
		p := corev1.SeccompProfile{Type: value(m, []corev1.SeccompProfileType{"RuntimeDefault", "Unconfined", "Localhost"},
			[]corev1.SeccompProfileType{"", "Other"})}
		if p.Type == corev1.SeccompProfileTypeLocalhost || m.r.IntN(1000) < m.Bad {
			name := value(m, []string{"profile.json", "a/b.json", "..profile.json"},
				[]string{"", "/abs.json", "../up.json", "a/../b"})
			p.LocalhostProfile = &name
			if m.r.IntN(1000) < m.Bad {
				p.LocalhostProfile = nil
			}
		}
		return p
	})
}

func (m *Generator) volume(i int) corev1.Volume {
	v := corev1.Volume{Name: value(m, []string{fmt.Sprintf("v%d", i)}, []string{"", "V", "a.b", "v0", long64})}
	switch m.r.IntN(5) {
	case 0, 1:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{
			Medium: value(m, []corev1.StorageMedium{"", "Memory"}, []corev1.StorageMedium{"memory", "Disk"}),
			SizeLimit: maybe(m, 30, func() resource.Quantity {
				return resource.MustParse(value(m, []string{"0", "1", "64Mi"}, []string{"-1"}))
			}),
		}
	case 2, 3:
		v.HostPath = &corev1.HostPathVolumeSource{
			Path: value(m, []string{"/data", "/", "/var/run/x.sock", "relative/path"}, []string{"", "/a/../b", ".."}),
			Type: maybe(m, 60, func() corev1.HostPathType {
				return value(m,
					[]corev1.HostPathType{"", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice",
						"BlockDevice"},
					[]corev1.HostPathType{"directory", "Link"})
			}),
		}
		if m.r.IntN(1000) < m.Bad {
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
	}
	return v
}

func (m *Generator) container(i int, s *corev1.PodSpec, taken map[int32]bool) corev1.Container {
	c := corev1.Container{
		Name:  value(m, []string{fmt.Sprintf("c%d", i)}, []string{"", "C", "a.b", "c0", long64, "c_1"}),
		Image: value(m, GoodImages, []string{"", " busybox", "busybox ", "Upper/Case", "a:b:c"}),
		ImagePullPolicy: value(m, []corev1.PullPolicy{"", "", "IfNotPresent", "Always", "Never"},
			[]corev1.PullPolicy{"always", "Once"}),
		WorkingDir: Pick(m, "", "", "/app", "rel"),
		Command:    some(m, 50, 3, m.word), Args: some(m, 50, 3, m.word),
		TerminationMessagePath: Pick(m, "", "", "/dev/termination-log", "/var/x", "rel"),
		TerminationMessagePolicy: value(m, []corev1.TerminationMessagePolicy{"", "File", "FallbackToLogsOnError"},
			[]corev1.TerminationMessagePolicy{"file", "Log"}),
		Stdin: m.Chance(15), StdinOnce: m.Chance(10), TTY: m.Chance(10),
	}
	names := map[string]bool{}
	for range m.r.IntN(3) {
		c.Ports = append(c.Ports, m.port(s, taken, names))
	}
	c.Env = some(m, 60, 5, func(int) corev1.EnvVar { return m.env(s) })
	m.resources(&c.Resources)
	if len(s.Volumes) > 0 || m.r.IntN(1000) < m.Bad {
		c.VolumeMounts = some(m, 70, 3, func(j int) corev1.VolumeMount { return m.mount(j, s) })
	}
	c.SecurityContext = maybe(m, 50, m.security)
	for j := range c.VolumeMounts {
		p := c.VolumeMounts[j].MountPropagation
		if p != nil && *p == corev1.MountPropagationBidirectional && m.r.IntN(1000) >= m.Bad {
			yes := true
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = &yes, nil
		}
	}
	return c
}

func (m *Generator) word(int) string {
	return Pick(m, "sh", "-c", "", "$(A)", "$$(A)", "$(NOT_SET)", "echo $(B) $C $$", "$(A", "$", "a b", "$$$$(A)",
		"$(A)$(B)", "ü", "$()")
}

func (m *Generator) port(s *corev1.PodSpec, taken map[int32]bool, names map[string]bool) corev1.ContainerPort {
	p := corev1.ContainerPort{
		Name: value(m, []string{"", "", "http", "p-1", "abcdefghijklmno"},
			[]string{"HTTP", "123", "a--b", "abcdefghijklmnop", "-x"}),
		ContainerPort: value(m, []int32{1, 80, 8080, 65535}, []int32{0, -1, 65536}),
		Protocol:      value(m, []corev1.Protocol{"", "TCP", "UDP", "SCTP"}, []corev1.Protocol{"tcp", "ICMP"}),
		HostIP: value(m, []string{"", "", "127.0.0.1", "0.0.0.0", "::", "10.0.0.5"},
			[]string{"localhost", "1.2.3", "01.2.3.4", "fe80::1%eth0"}),
	}
	bad := m.r.IntN(1000) < m.Bad
	if names[p.Name] && !bad {
		p.Name = ""
	}
	names[p.Name] = p.Name != ""
	if m.Chance(30) {
		p.HostPort = value(m, []int32{1, 80, 30000, 65535}, []int32{-1, 65536})
		if s.HostNetwork && !bad {
			p.HostPort = p.ContainerPort
		}
	}
	if s.HostNetwork && p.HostPort == 0 && taken[p.ContainerPort] && !bad {
		p.ContainerPort = int32(1024 + len(taken))
	}
	used := p.HostPort
	if s.HostNetwork {
		used = p.ContainerPort
	}
	if used != 0 && taken[used] && !bad {
		p.HostPort, p.ContainerPort = int32(20000+len(taken)), int32(20000+len(taken))
		used = p.HostPort
	}
	taken[used] = true
	return p
}

func (m *Generator) env(s *corev1.PodSpec) corev1.EnvVar {
	e := corev1.EnvVar{
		Name: value(m, []string{"A", "B", "C", "a.b-c", "_x", "1A", "A"}, []string{"", "A=B", "ü", "\x01", "."})}
	if m.Chance(60) {
		e.Value = m.word(0)
		return e
	}
	f := &corev1.EnvVarSource{}
	if m.Chance(60) {
		f.FieldRef = &corev1.ObjectFieldSelector{
			APIVersion: value(m, []string{"", "v1"}, []string{"v2", "apps/v1"}),
			FieldPath: value(m,
				[]string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
					"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs", "metadata.labels['app']",
					"metadata.annotations['note']",
					"metadata.labels['example.com/part']", "metadata.annotations['example.com/Note']",
					"metadata.annotations['UPPER.example.com/x']"},
				[]string{"", "metadata.labels", "status.phase", "metadata.labels['a b']", "metadata.labels['']",
					"spec.nodeName['x']",
					"metadata.labels['app'", "metadata.annotations", "metadata.generation", "spec.host"}),
		}
	} else {
		f.ResourceFieldRef = m.resourceRef()
	}
	e.ValueFrom = f
	if m.r.IntN(1000) < m.Bad {
		e.Value = "x"
	}
	return e
}

func (m *Generator) resourceRef() *corev1.ResourceFieldSelector {
	f := &corev1.ResourceFieldSelector{
		ContainerName: value(m, []string{"", "", "c0"}, []string{"nobody"}),
		Resource: value(m,
			[]string{"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory",
				"requests.ephemeral-storage"},
			[]string{"", "limits.gpu", "cpu", "limits"}),
	}
	divisors, others := []string{"", "0", "1", "1Mi", "1k", "1Gi", "1E"}, []string{"1m", "2", "10Mi", "-1"}
	if strings.HasSuffix(f.Resource, "cpu") {
		divisors, others = []string{"", "0", "1", "1m"}, []string{"2", "1Mi", "100m"}
	}
	if d := value(m, divisors, others); d != "" {
		f.Divisor = resource.MustParse(d)
	}
	return f
}

func (m *Generator) resources(r *corev1.ResourceRequirements) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
		corev1.ResourceEphemeralStorage} {
		limit, request := m.quantity(name), m.quantity(name)
		if m.Chance(35) {
			if r.Limits == nil {
				r.Limits = corev1.ResourceList{}
			}
			r.Limits[name] = limit
		}
		if !m.Chance(35) {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		if have, limited := r.Limits[name]; limited && request.Cmp(have) > 0 && m.r.IntN(1000) >= m.Bad {
			request = have.DeepCopy()
		}
		r.Requests[name] = request
	}
	if m.r.IntN(1000) < m.Bad/2 {
		r.Limits = corev1.ResourceList{
			Pick[corev1.ResourceName](m, "gpu", "", "Cpu", "a b", "storage"): resource.MustParse("1")}
	}
}

func (m *Generator) mount(i int, s *corev1.PodSpec) corev1.VolumeMount {
	v := corev1.VolumeMount{
		Name: value(m, []string{""}, []string{"nowhere"}),
		MountPath: value(m, []string{fmt.Sprintf("/m%d", i), fmt.Sprintf("m%d", i), "/etc/hosts"},
			[]string{"", "/a:b", "/m0"}),
		ReadOnly: m.Chance(30),
		MountPropagation: maybe(m, 30, func() corev1.MountPropagationMode {
			return value(m, []corev1.MountPropagationMode{"None", "HostToContainer", "Bidirectional"},
				[]corev1.MountPropagationMode{"none", "Both"})
		}),
	}
	if i > 0 && v.MountPath == "/etc/hosts" {
		v.MountPath = fmt.Sprintf("/x%d", i)
	}
	if v.Name == "" && len(s.Volumes) > 0 && m.r.IntN(1000) >= m.Bad {
		v.Name = s.Volumes[m.r.IntN(len(s.Volumes))].Name
	}
	return v
}

func (m *Generator) security() corev1.SecurityContext {
	c := corev1.SecurityContext{
		Privileged: maybe(m, 20, func() bool { return m.Chance(60) }), RunAsUser: m.user(), RunAsGroup: m.user(),
		RunAsNonRoot: m.flag(), ReadOnlyRootFilesystem: m.flag(), AllowPrivilegeEscalation: m.flag(),
		SeccompProfile: m.seccomp(),
		ProcMount:      maybe(m, 10, func() corev1.ProcMountType { return corev1.DefaultProcMount }),
	}
	if m.Chance(25) {
		add := func(int) corev1.Capability {
			return Pick[corev1.Capability](m, "NET_ADMIN", "SYS_ADMIN", "CAP_SYS_ADMIN", "ALL", "chown")
		}
		c.Capabilities = &corev1.Capabilities{Add: some(m, 60, 2, add), Drop: some(m, 60, 2, add)}
	}
	if c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation || m.r.IntN(1000) < m.Bad {
		return c
	}
	if c.Privileged != nil && *c.Privileged {
		c.AllowPrivilegeEscalation = nil
	}
	if c.Capabilities != nil {
		for _, a := range c.Capabilities.Add {
			if a == "CAP_SYS_ADMIN" {
				c.AllowPrivilegeEscalation = nil
			}
		}
	}
	return c
}
