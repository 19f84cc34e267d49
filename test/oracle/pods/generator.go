package pods

import (
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Generator generates pods.
type Generator struct {
	r *rand.Rand
	// Bad is the share of invalid or almost invalid values, in thousandths.
	Bad int
}

// New returns a generator. Generators of one seed and number generate the same pods.
func New(seed, number uint64) *Generator {
	return &Generator{
		r: rand.New(rand.NewPCG(seed, number))} //nolint:gosec // the same pods for the same seed are the point
}

// N returns a number below n.
func (m *Generator) N(n int) int { return m.r.IntN(n) }

// Chance returns true in a percentage of calls.
func (m *Generator) Chance(percent int) bool { return m.r.IntN(100) < percent }

// Pick returns an element of a list.
func Pick[T any](m *Generator, list ...T) T { return list[m.r.IntN(len(list))] }

// value returns a good value, or a bad one according to m.Bad.
func value[T any](m *Generator, good, bad []T) T {
	if m.r.IntN(1000) < m.Bad && len(bad) > 0 {
		return Pick(m, bad...)
	}
	return Pick(m, good...)
}

// maybe returns a pointer to a value of generate in a percentage of calls, else nil.
func maybe[T any](m *Generator, percent int, generate func() T) *T {
	if !m.Chance(percent) {
		return nil
	}
	v := generate()
	return &v
}

// some returns 1 to most values of generate in a percentage of calls, else none.
func some[T any](m *Generator, percent, most int, generate func(i int) T) []T {
	if !m.Chance(percent) {
		return nil
	}
	var out []T
	for i := range 1 + m.r.IntN(most) {
		out = append(out, generate(i))
	}
	return out
}

func (m *Generator) flag() *bool { return maybe(m, 40, func() bool { return m.Chance(50) }) }

var (
	long63  = strings.Repeat("a", 63)
	long64  = strings.Repeat("a", 64)
	long253 = strings.Repeat(strings.Repeat("b", 49)+".", 5) + "bcd"
)

// Pod returns one pod, as its author would write it.
func (m *Generator) Pod() *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	p.Name = value(m, []string{"web", "a", "a.b-c.d", "w3b", long63, strings.Repeat("n", 160)},
		[]string{"", "Web", "-web", "web_1", "a..b", long253 + "xxxxxx", "ü"})
	p.Namespace = value(m, []string{"", "", "default", "kube-system", "x"}, []string{"Big", "a.b", long64})
	p.UID = value(m, []types.UID{"", "", "", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "abc"},
		[]types.UID{"a/b", "..", "a b"})
	p.Labels = m.labels()
	p.Annotations = m.annotations()
	m.spec(&p.Spec)
	if m.Chance(20) {
		m.podResources(p)
	}
	return p
}

func (m *Generator) labels() map[string]string {
	if !m.Chance(50) {
		return nil
	}
	out := map[string]string{}
	for range m.r.IntN(4) {
		key := value(m, []string{"app", "example.com/part", "k8s-app", "a_b.c", "kubernetes.io/arch", long63},
			[]string{"", "a b", "/x", "x/", "UPPER.com/x", long64, "a/b/c", "-x"})
		out[key] = value(m, []string{"", "web", "A_b.c", "1", long63}, []string{"a b", "-x", long64, "x/y", "ü"})
	}
	return out
}

func (m *Generator) annotations() map[string]string {
	if !m.Chance(40) {
		return nil
	}
	out := map[string]string{}
	for range m.r.IntN(3) {
		key := value(m,
			[]string{"note", "example.com/Note", "scheduler.alpha.kubernetes.io/critical-pod", "UPPER.example.com/x"},
			[]string{"", "a b", "x/", "a/b/c"})
		out[key] = Pick(m, "", "any text: \n\t\"ü\"", "{}", "1")
	}
	return out
}

func (m *Generator) spec(s *corev1.PodSpec) {
	s.RestartPolicy = value(m, []corev1.RestartPolicy{"", "Always", "OnFailure", "Never"},
		[]corev1.RestartPolicy{"always", "Sometimes"})
	s.TerminationGracePeriodSeconds = maybe(m, 50, func() int64 {
		return value(m, []int64{0, 1, 2, 30, 3600}, []int64{-1, -30, 1 << 31})
	})
	m.dns(s)
	s.HostNetwork, s.HostPID, s.HostIPC = m.Chance(15), m.Chance(10), m.Chance(10)
	s.ShareProcessNamespace = m.flag()
	if s.HostPID && m.r.IntN(1000) >= m.Bad {
		s.ShareProcessNamespace = nil
	}
	s.Hostname = value(m, []string{"", "", "", "h", "host-1", long63}, []string{"Host", "a.b", long64, "-h", "a_b"})
	s.Subdomain = value(m, []string{"", "", "", "sub", "s-1", long63}, []string{"Sub", "a.b", long64})
	s.SetHostnameAsFQDN = m.flag()
	s.EnableServiceLinks = m.flag()
	s.AutomountServiceAccountToken = maybe(m, 20, func() bool { return false })
	s.SchedulerName = Pick(m, "", "", "default-scheduler", "other")
	s.HostAliases = some(m, 20, 2, func(int) corev1.HostAlias {
		return corev1.HostAlias{
			IP: value(m, []string{"10.1.2.3", "fd00::1"}, []string{"", "10.1.2", "x", "010.1.2.3", "::ffff:10.1.2.3"}),
			Hostnames: some(m, 80, 2, func(int) string {
				return value(m, []string{"db", "db.example.com", "a"}, []string{"", "DB", "a_b", "*.x"})
			}),
		}
	})
	s.Tolerations = some(m, 25, 3, m.toleration)
	m.nodeChoice(s)
	s.Priority = maybe(m, 15, func() int32 { return Pick[int32](m, 0, 5, -10, 2000000000) })
	s.SecurityContext = maybe(m, 50, func() corev1.PodSecurityContext { return m.podSecurity(s) })
	s.Volumes = some(m, 50, 3, m.volume)
	ports := map[int32]bool{}
	for i := range 1 + m.r.IntN(3) {
		s.Containers = append(s.Containers, m.container(i, s, ports))
	}
	if m.r.IntN(1000) < m.Bad/10 {
		s.Containers = nil
	}
}

func (m *Generator) dns(s *corev1.PodSpec) {
	s.DNSPolicy = value(m, []corev1.DNSPolicy{"", "", "ClusterFirst", "Default", "ClusterFirstWithHostNet", "None"},
		[]corev1.DNSPolicy{"default", "Other"})
	if s.DNSPolicy != corev1.DNSNone && !m.Chance(30) {
		return
	}
	c := &corev1.PodDNSConfig{}
	c.Nameservers = some(m, 60, 3, func(int) string {
		return value(m, []string{"8.8.8.8", "9.9.9.9", "fd00::53", "10.96.0.10"},
			[]string{"", "8.8", "dns.example", "08.8.8.8"})
	})
	if s.DNSPolicy == corev1.DNSNone && len(c.Nameservers) == 0 && m.r.IntN(1000) >= m.Bad {
		c.Nameservers = []string{"1.1.1.1"}
	}
	if m.r.IntN(1000) < m.Bad {
		c.Nameservers = []string{"1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"}
	}
	c.Searches = some(m, 60, 4, func(int) string {
		return value(m, []string{"example.com", "a", ".", "x_y.z", "example.org.", long63 + ".com", "svc.cluster.local"},
			[]string{"", "..", "A.com", "a b", long64 + ".com", "-x"})
	})
	if m.Chance(5) {
		for i := range 30 {
			c.Searches = append(c.Searches, strings.Repeat(string(rune('a'+i%26)), 40+i)+".example")
		}
	}
	c.Options = some(m, 50, 3, func(int) corev1.PodDNSConfigOption {
		return corev1.PodDNSConfigOption{
			Name:  value(m, []string{"ndots", "edns0", "timeout", "single-request"}, []string{""}),
			Value: maybe(m, 50, func() string { return Pick(m, "", "1", "15") }),
		}
	})
	s.DNSConfig = c
}

func (m *Generator) toleration(int) corev1.Toleration {
	t := corev1.Toleration{
		Key:      value(m, []string{"", "node.kubernetes.io/not-ready", "k"}, []string{"a b", "/"}),
		Operator: value(m, []corev1.TolerationOperator{"", "Equal", "Exists"}, []corev1.TolerationOperator{"Lt", "Gt", "In"}),
		Value:    value(m, []string{"", "", "v"}, []string{"a b", long64}),
		Effect: value(m, []corev1.TaintEffect{"", "NoSchedule", "PreferNoSchedule", "NoExecute"},
			[]corev1.TaintEffect{"NoWay"}),
		TolerationSeconds: maybe(m, 15, func() int64 {
			return Pick[int64](m, 0, -1, 300)
		}),
	}
	if m.r.IntN(1000) < m.Bad {
		return t
	}
	if t.Key == "" || t.Value == "" && m.Chance(50) {
		t.Operator = corev1.TolerationOpExists
	}
	if t.Operator == corev1.TolerationOpExists {
		t.Value = ""
	}
	if t.TolerationSeconds != nil {
		t.Effect = corev1.TaintEffectNoExecute
	}
	return t
}

func (m *Generator) nodeChoice(s *corev1.PodSpec) {
	if m.Chance(15) {
		s.NodeSelector = map[string]string{
			value(m, []string{"disk", "kubernetes.io/os", "zone"}, []string{"", "a b"}): value(m,
				[]string{"ssd", "linux", "", "a"}, []string{"a b"}),
		}
	}
	if !m.Chance(15) {
		return
	}
	a := &corev1.NodeAffinity{}
	if m.Chance(80) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: m.terms()}
	}
	a.PreferredDuringSchedulingIgnoredDuringExecution = some(m, 30, 2, func(int) corev1.PreferredSchedulingTerm {
		t := corev1.PreferredSchedulingTerm{Weight: value(m, []int32{1, 50, 100}, []int32{0, 101, -1})}
		if terms := m.terms(); len(terms) > 0 {
			t.Preference = terms[0]
		}
		return t
	})
	s.Affinity = &corev1.Affinity{NodeAffinity: a}
}

func (m *Generator) terms() []corev1.NodeSelectorTerm {
	if m.r.IntN(1000) < m.Bad {
		return nil
	}
	out := []corev1.NodeSelectorTerm{}
	for range 1 + m.r.IntN(2) {
		t := corev1.NodeSelectorTerm{
			MatchExpressions: some(m, 90, 2, func(int) corev1.NodeSelectorRequirement { return m.requirement(false) })}
		t.MatchFields = some(m, 15, 1, func(int) corev1.NodeSelectorRequirement { return m.requirement(true) })
		out = append(out, t)
	}
	return out
}

func (m *Generator) requirement(ofField bool) corev1.NodeSelectorRequirement {
	q := corev1.NodeSelectorRequirement{
		Key: value(m, []string{"disk", "zone", "kubernetes.io/os", "cores"}, []string{"", "a b", "UPPER.x/y"}),
		Operator: value(m, []corev1.NodeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"},
			[]corev1.NodeSelectorOperator{"", "Equals"}),
	}
	if ofField {
		q.Key = value(m, []string{"metadata.name"}, []string{"metadata.namespace", ""})
		q.Operator = value(m, []corev1.NodeSelectorOperator{"In", "NotIn"}, []corev1.NodeSelectorOperator{"Exists", "Gt"})
		q.Values = []string{value(m, []string{"node-1", "other"}, []string{"A b", ""})}
		return q
	}
	switch q.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		q.Values = []string{value(m, []string{"ssd", "linux", "a", ""}, []string{"a b", long64}), "b"}[:1+m.r.IntN(2)]
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		q.Values = []string{value(m, []string{"2", "0", "-1", "16"}, []string{"x", "", "1.5"})}
	}
	if m.r.IntN(1000) < m.Bad {
		q.Values = Pick(m, nil, []string{"1", "2"})
	}
	return q
}

// quantity returns an amount of a resource.
func (m *Generator) quantity(name corev1.ResourceName) resource.Quantity {
	good, bad := []string{"0", "1", "64Mi", "128974848", "1.5Gi", "512Mi", "16Gi"}, []string{"-1", "-64Mi", "0.5", "100m"}
	if name == corev1.ResourceCPU {
		good, bad = []string{"0", "1", "100m", "1m", "2m", "2500m", "0.1", "9", "10m", "0.0001"}, []string{"-1", "-100m"}
	}
	return resource.MustParse(value(m, good, bad))
}

// Small returns a pod whose containers differ only in fields that decide on their lifecycle.
func (m *Generator) Small() *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	p.Name = Pick(m, "web", "a", "job-1")
	s := &p.Spec
	s.RestartPolicy = Pick[corev1.RestartPolicy](m, "", "Always", "OnFailure", "OnFailure", "Never", "Never")
	s.TerminationGracePeriodSeconds = maybe(m, 40, func() int64 { return Pick[int64](m, 0, 1, 2, 5, 60, -1) })
	s.HostNetwork = m.Chance(15)
	for i := range 1 + m.N(3) {
		c := corev1.Container{Name: "c" + string(rune('0'+i)), Image: Pick(m, GoodImages...),
			ImagePullPolicy: Pick[corev1.PullPolicy](m, "", "IfNotPresent", "Never", "Always")}
		if m.Chance(30) {
			m.resources(&c.Resources)
		}
		s.Containers = append(s.Containers, c)
	}
	if m.Chance(10) {
		m.podResources(p)
	}
	return p
}
