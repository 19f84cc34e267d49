package cri

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/actors/apparmor"
	"github.com/journalet/journalet/actors/containers"
	podactor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri/expand"
	"github.com/journalet/journalet/test/must"
)

func testDriver() *Driver {
	return &Driver{opts: Options{
		Node: "node-1", Owner: Owner{AgentID: "agent-1"},
		Network: Network{HostIPs: []string{"192.0.2.1", "2001:db8::1"}, ClusterDomain: "cluster.local"},
		Hash:    func(*corev1.Container) string { return "cafe" }, Security: Security{SeccompRoot: "/seccomp"},
		Resources: Resources{MemoryCapacity: 16 << 30},
	}}
}

func testPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "uid-1",
			Labels:      map[string]string{"app": "web"},
			Annotations: map[string]string{"note": "x", AnnotationIntent: "forged", AnnotationAgent: "forged"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func TestEnvironmentReadsPodFieldsAndEarlierVariables(t *testing.T) {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	res := func(name, divisor string) *corev1.EnvVarSource {
		s := &corev1.ResourceFieldSelector{Resource: name}
		if divisor != "" {
			s.Divisor = resource.MustParse(divisor)
		}
		return &corev1.EnvVarSource{ResourceFieldRef: s}
	}
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.ServiceAccountName = "robot"
		c := &p.Spec.Containers[0]
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"),
			corev1.ResourceMemory: resource.MustParse("100Mi")}
		c.Env = []corev1.EnvVar{
			{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)2$(C)"}, {Name: "C", Value: "late"},
			{Name: "NAME", ValueFrom: field("metadata.name")}, {Name: "NS", ValueFrom: field("metadata.namespace")},
			{Name: "UID", ValueFrom: field("metadata.uid")}, {Name: "LABEL", ValueFrom: field("metadata.labels['app']")},
			{Name: "NOTE", ValueFrom: field("metadata.annotations['note']")}, {Name: "NODE", ValueFrom: field("spec.nodeName")},
			{Name: "SA", ValueFrom: field("spec.serviceAccountName")}, {Name: "HOST", ValueFrom: field("status.hostIP")},
			{Name: "HOSTS", ValueFrom: field("status.hostIPs")}, {Name: "IP", ValueFrom: field("status.podIP")},
			{Name: "IPS", ValueFrom: field("status.podIPs")}, {Name: "CPU", ValueFrom: res("limits.cpu", "")},
			{Name: "MILLI", ValueFrom: res("requests.cpu", "1m")}, {Name: "MEM", ValueFrom: res("limits.memory", "1Mi")},
			{Name: "A", Value: "again"},
		}
	})
	in := containerInput{pod: pod, container: &pod.Spec.Containers[0], podIPs: []string{"10.0.0.1", "fd00::1"}}
	envs, _, err := testDriver().environment(t.Context(), in, &expand.Budget{})
	must.OK(t, err)
	var got []string
	for _, e := range envs {
		got = append(got, e.GetKey()+"="+string(e.GetValue()))
	}
	want := strings.Fields(`A=again B=12$(C) C=late NAME=web NS=default UID=uid-1 LABEL=web NOTE=x NODE=node-1 SA=robot
		HOST=192.0.2.1
		HOSTS=192.0.2.1,2001:db8::1 IP=10.0.0.1 IPS=10.0.0.1,fd00::1 CPU=2 MILLI=1500 MEM=100`)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", ValueFrom: field("status.phase")}}
	if _, _, err := testDriver().environment(t.Context(), in, &expand.Budget{}); err == nil {
		t.Error("status.phase must be refused")
	}
}

// In a cluster pods get the addresses of the Node. Without one their containers wait, as by a kubelet.
func TestHostIPIsTheNodesWhereItHasOne(t *testing.T) {
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "H", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"}}}}
	})
	in, d := containerInput{pod: pod, container: &pod.Spec.Containers[0]}, testDriver()
	ips, missing := []string{"198.51.100.7"}, error(nil)
	d.opts.Network.NodeIPs = func() ([]string, error) { return ips, missing }
	on := &call{Driver: d}
	pod.Spec.HostNetwork = true
	envs, _, err := d.environment(t.Context(), in, &expand.Budget{})
	if err != nil || string(envs[0].GetValue()) != ips[0] {
		t.Errorf("%v, %v", envs, err)
	}
	if got := on.podIPs(pod, nil, nil); !reflect.DeepEqual(got, ips) {
		t.Errorf("a pod on the node's network is at %q", got)
	}
	ips, missing = nil, errors.New("no address yet")
	_, _, err = d.environment(t.Context(), in, &expand.Budget{})
	if f := (*calls.Failure)(nil); !errors.As(err, &f) || !f.Retryable || !strings.Contains(f.Message, "no address yet") {
		t.Errorf("without an address: %v", err)
	}
	if got := on.podIPs(pod, nil, nil); !reflect.DeepEqual(got, d.opts.Network.HostIPs) {
		t.Errorf("without an address of the Node a pod on its network is at %q", got)
	}
}

func TestDNSFollowsPolicy(t *testing.T) {
	host := &runtimeapi.DNSConfig{Servers: []string{"1.1.1.1"}, Searches: []string{"corp"},
		Options: []string{"ndots:2", "rotate"}}
	five := "5"
	own := &corev1.PodDNSConfig{Nameservers: []string{"2.2.2.2", "3.3.3.3", "4.4.4.4"}, Searches: []string{"corp", "own"},
		Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &five}, {Name: "edns0"}}}
	for _, c := range []struct {
		name                       string
		policy                     corev1.DNSPolicy
		hostNetwork                bool
		cluster                    []string
		own                        *corev1.PodDNSConfig
		servers, searches, options string
	}{
		{"default", corev1.DNSDefault, false, nil, nil, "1.1.1.1", "corp", "ndots:2 rotate"},
		{"cluster first", corev1.DNSClusterFirst, false, []string{"10.96.0.10"}, nil, "10.96.0.10",
			"default.svc.cluster.local svc.cluster.local cluster.local corp", "ndots:5"},
		{"no policy", "", false, []string{"10.96.0.10"}, nil, "10.96.0.10",
			"default.svc.cluster.local svc.cluster.local cluster.local corp", "ndots:5"},
		{"cluster first without a cluster", corev1.DNSClusterFirst, false, nil, nil, "1.1.1.1", "corp", "ndots:2 rotate"},
		{"cluster first on the host's network", corev1.DNSClusterFirst, true, []string{"10.96.0.10"}, nil, "1.1.1.1", "corp",
			"ndots:2 rotate"},
		{"with host net", corev1.DNSClusterFirstWithHostNet, true, []string{"10.96.0.10"}, nil, "10.96.0.10",
			"default.svc.cluster.local svc.cluster.local cluster.local corp", "ndots:5"},
		{"none", corev1.DNSNone, false, nil, own, "2.2.2.2 3.3.3.3 4.4.4.4", "corp own", "ndots:5 edns0"},
		{"merged", corev1.DNSDefault, false, nil, own, "1.1.1.1 2.2.2.2 3.3.3.3", "corp own", "ndots:5 rotate edns0"},
	} {
		pod := testPod(func(p *corev1.Pod) {
			p.Spec.DNSPolicy, p.Spec.HostNetwork, p.Spec.DNSConfig = c.policy, c.hostNetwork, c.own
		})
		got := podDNS(pod, host, c.cluster, "cluster.local", quiet)
		have := []string{strings.Join(got.Servers, " "), strings.Join(got.Searches, " "), strings.Join(got.Options, " ")}
		if want := []string{c.servers, c.searches, c.options}; !reflect.DeepEqual(have, want) {
			t.Errorf("%s: %q, want %q", c.name, have, want)
		}
	}
	if host.Options[0] != "ndots:2" {
		t.Error("the host's configuration was changed")
	}
	long := &runtimeapi.DNSConfig{}
	for range 40 {
		long.Searches = append(long.Searches, strings.Repeat("a", 99))
	}
	if n := len(fitDNS(long, quiet).Searches); n != 20 {
		t.Errorf("%d searches of 99 characters fit 2048, want 20", n)
	}
}

func TestWhatDoesNotFitAResolverIsReported(t *testing.T) {
	var got []string
	warn := func(reason, message string) { got = append(got, reason+" "+message) }
	pod := testPod(func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSClusterFirst })
	host := &runtimeapi.DNSConfig{
		Servers: []string{"1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"}, Searches: []string{strings.Repeat("a", 254), "corp"},
	}
	out := podDNS(pod, host, nil, "cluster.local", warn)
	if !reflect.DeepEqual(out.Searches, []string{"corp"}) || len(out.Servers) != 3 {
		t.Errorf("%v", out)
	}
	want := []string{
		`MissingClusterDNS pod: "` + pod.Name + "_" + pod.Namespace + "(" + string(pod.UID) + `)". kubelet does not have ` +
			`ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`,
		"DNSConfigForming Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line " +
			"is: 1.1.1.1 2.2.2.2 3.3.3.3",
		"DNSConfigForming Search Line limits were exceeded, some search paths have been omitted, the applied search line " +
			"is: corp",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
	got = nil
	podDNS(pod, &runtimeapi.DNSConfig{Servers: []string{"1.1.1.1"}}, []string{"10.96.0.10"}, "cluster.local", warn)
	if got != nil {
		t.Errorf("reported %q of what fits", got)
	}
}

func TestParseResolvConf(t *testing.T) {
	got, err := parseResolvConf(strings.NewReader(
		"# c\nnameserver 1.1.1.1\nnameserver\nsearch a\nsearch b. .\noptions ndots:1 rotate\n"))
	must.OK(t, err)
	want := &runtimeapi.DNSConfig{Servers: []string{"1.1.1.1"}, Searches: []string{"b", "."},
		Options: []string{"ndots:1", "rotate"}}
	if !reflect.DeepEqual(got.Servers, want.Servers) || !reflect.DeepEqual(got.Searches, want.Searches) ||
		!reflect.DeepEqual(got.Options, want.Options) {
		t.Errorf("got %v", got)
	}
}

func list(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func TestContainerInheritsPodLimits(t *testing.T) {
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("1", "8Gi"), Limits: list("2", "8Gi")}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "own"})
		p.Spec.Containers[1].Resources = corev1.ResourceRequirements{Requests: list("500m", "2Gi"), Limits: list("1", "4Gi")}
	})
	for i, want := range [][4]int64{
		// Both containers share the 6 GiB that no container requests.
		{2048, 200000, 8 << 30, 1000 - 1000*3/16},
		{512, 100000, 4 << 30, 1000 - 1000*5/16},
	} {
		r := testDriver().opts.Resources.ofContainer(pod, &pod.Spec.Containers[i])
		if got := [4]int64{r.CpuShares, r.CpuQuota, r.MemoryLimitInBytes, r.OomScoreAdj}; got != want {
			t.Errorf("container %d: %v, want %v", i, got, want)
		}
	}
	if r := testDriver().sandboxResources(pod); r.CpuShares != 1024 || r.CpuQuota != 200000 ||
		r.MemoryLimitInBytes != 8<<30 {
		t.Errorf("the sandbox: %v", r)
	}
	if len(pod.Spec.Containers[0].Resources.Limits) != 0 {
		t.Error("the manifest was changed")
	}
}

func TestResourcesAndOOMScoresMatchKubelet(t *testing.T) {
	for _, c := range []struct {
		name                         string
		requests, limits             corev1.ResourceList
		class                        corev1.PodQOSClass
		shares, quota, memory, score int64
	}{
		{"nothing", nil, nil, corev1.PodQOSBestEffort, 2, 0, 0, 1000},
		{"request", list("250m", "4Gi"), nil, corev1.PodQOSBurstable, 256, 0, 0, 750},
		{"limit only", nil, list("500m", "1Gi"), corev1.PodQOSGuaranteed, 512, 50000, 1 << 30, -997},
		{"tiny", list("1m", "1Ki"), list("1m", "2Ki"), corev1.PodQOSBurstable, 2, 1000, 2048, 999},
		{"all memory", list("", "16Gi"), nil, corev1.PodQOSBurstable, 2, 0, 0, 3},
		{"more than all", list("", "64Gi"), nil, corev1.PodQOSBurstable, 2, 0, 0, 3},
		{"one of two", nil, list("1", ""), corev1.PodQOSBurstable, 1024, 100000, 0, 999},
		{"huge", list("300", ""), nil, corev1.PodQOSBurstable, 262144, 0, 0, 999},
	} {
		pod := testPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}
		})
		if got := podactor.QOS(pod); got != c.class {
			t.Errorf("%s: class %s, want %s", c.name, got, c.class)
		}
		r := testDriver().opts.Resources.ofContainer(pod, &pod.Spec.Containers[0])
		got := [4]int64{r.CpuShares, r.CpuQuota, r.MemoryLimitInBytes, r.OomScoreAdj}
		if want := [4]int64{c.shares, c.quota, c.memory, c.score}; got != want {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
		if r.CpuPeriod != 100000 {
			t.Errorf("%s: period %d", c.name, r.CpuPeriod)
		}
	}
	// A sidecar has at most the score of the main container with the smallest request.
	always := corev1.ContainerRestartPolicyAlways
	served := testPod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: &always}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "large"})
		p.Spec.Containers[0].Resources.Requests, p.Spec.Containers[1].Resources.Requests = list("", "4Gi"), list("", "8Gi")
	})
	if got := oomScore(served, &served.Spec.InitContainers[0], 16<<30); got != 750 {
		t.Errorf("a sidecar: %d", got)
	}
	critical := testPod(func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" })
	if got := oomScore(critical, &critical.Spec.Containers[0], 1<<30); got != -997 {
		t.Errorf("critical pod: %d", got)
	}
}

func TestSecurityContextsMerge(t *testing.T) {
	yes, no := true, false
	u1, u2, g := int64(1000), int64(2000), int64(3000)
	profile := "a.json"
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.HostPID = true
		p.Spec.SecurityContext = &corev1.PodSecurityContext{
			RunAsUser: &u1, RunAsGroup: &g, SupplementalGroups: []int64{7},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			RunAsUser: &u2, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities:   &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &profile},
		}
	})
	d := testDriver()
	sc, err := d.containerSecurity(containerInput{pod: pod, container: &pod.Spec.Containers[0]})
	must.OK(t, err)
	if sc.RunAsUser.Value != u2 || sc.RunAsGroup.Value != g || !sc.NoNewPrivs || !sc.ReadonlyRootfs ||
		sc.SupplementalGroups[0] != 7 ||
		sc.Capabilities.AddCapabilities[0] != "NET_ADMIN" || sc.Capabilities.DropCapabilities[0] != "ALL" ||
		sc.Seccomp.LocalhostRef != "/seccomp/a.json" || sc.NamespaceOptions.Pid != runtimeapi.NamespaceMode_NODE ||
		len(sc.MaskedPaths) == 0 {
		t.Errorf("got %v", sc)
	}
	profile = "../../etc/passwd"
	if _, err := d.containerSecurity(containerInput{pod: pod, container: &pod.Spec.Containers[0]}); err == nil {
		t.Error("a profile outside of its directory must be refused")
	}
	plain := testPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	})
	sc, err = d.containerSecurity(containerInput{pod: plain, container: &plain.Spec.Containers[0],
		image: imageInfo{username: "www"}})
	must.OK(t, err)
	if !sc.Privileged || len(sc.MaskedPaths) == 0 || len(sc.ReadonlyPaths) == 0 || sc.RunAsUser != nil ||
		sc.RunAsUsername != "www" ||
		sc.Seccomp.ProfileType != runtimeapi.SecurityProfile_Unconfined ||
		sc.NamespaceOptions.Pid != runtimeapi.NamespaceMode_CONTAINER {
		t.Errorf("got %v", sc)
	}
}

func TestEphemeralContainerJoinsItsTarget(t *testing.T) {
	yes := true
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", SecurityContext: &corev1.SecurityContext{Privileged: &yes},
			},
			TargetContainerName: "main",
		}}
	})
	d := testDriver()
	in := containerInput{pod: pod, container: containers.Find(pod, "debug"), target: "id-of-main"}
	options := func() *runtimeapi.NamespaceOption {
		t.Helper()
		sc, err := d.containerSecurity(in)
		must.OK(t, err)
		return sc.GetNamespaceOptions()
	}
	if o := options(); o.GetPid() != runtimeapi.NamespaceMode_TARGET || o.GetTargetId() != "id-of-main" {
		t.Errorf("got %v", o)
	}
	// The runtime refuses a privileged container where the sandbox's configuration that comes with it is not.
	sandbox, err := d.sandboxConfig(pod, nil, 0, "", "")
	must.OK(t, err)
	if !sandbox.GetLinux().GetSecurityContext().GetPrivileged() {
		t.Error("the sandbox of a privileged ephemeral container is not privileged")
	}
	pod.Spec.ShareProcessNamespace = &yes
	if o := options(); o.GetPid() != runtimeapi.NamespaceMode_POD || o.GetTargetId() != "" {
		t.Errorf("beside a shared namespace: %v", o)
	}
	pod.Spec.ShareProcessNamespace, pod.Spec.HostPID = nil, true
	if o := options(); o.GetPid() != runtimeapi.NamespaceMode_NODE || o.GetTargetId() != "" {
		t.Errorf("beside the node's namespace: %v", o)
	}
}

func TestSandboxConfigMatchesKubelet(t *testing.T) {
	d := testDriver()
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80},
			{ContainerPort: 53, HostPort: 5353, Protocol: corev1.ProtocolUDP, HostIP: "127.0.0.1"}}
		p.Spec.Containers[0].Resources.Requests = list("100m", "")
		p.Spec.Overhead = list("250m", "64Mi")
		p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net/ipv4/ip_forward",
			Value: "1"}}}
	})
	c, err := d.sandboxConfig(pod, nil, 3, "1.2.pod/uid-1.0", "/logs")
	must.OK(t, err)
	if c.Metadata.Attempt != 3 || c.Hostname != "web" || c.LogDirectory != "/logs" || c.Linux.CgroupParent != "" ||
		c.Linux.Sysctls["net.ipv4.ip_forward"] != "1" || c.Linux.Resources.CpuShares != 102 ||
		c.Linux.SecurityContext.Seccomp.ProfileType != runtimeapi.SecurityProfile_RuntimeDefault {
		t.Errorf("got %v", c)
	}
	if o := c.Linux.Overhead; o.GetCpuShares() != 256 || o.GetCpuQuota() != 25000 || o.GetMemoryLimitInBytes() != 64<<20 {
		t.Errorf("overhead %v", o)
	}
	if len(c.PortMappings) != 2 || c.PortMappings[1].HostPort != 5353 ||
		c.PortMappings[1].Protocol != runtimeapi.Protocol_UDP || c.PortMappings[1].HostIp != "127.0.0.1" {
		t.Errorf("ports %v", c.PortMappings)
	}
	wantLabels := map[string]string{"app": "web", LabelPodName: "web", LabelPodNamespace: "default", LabelPodUID: "uid-1"}
	if !reflect.DeepEqual(c.Labels, wantLabels) {
		t.Errorf("labels %v", c.Labels)
	}
	if c.Annotations[AnnotationIntent] != "1.2.pod/uid-1.0" || c.Annotations[AnnotationAgent] != "agent-1" ||
		c.Annotations["note"] != "x" {
		t.Errorf("annotations %v: a pod's own must not replace the agent's", c.Annotations)
	}
	if pod.Annotations[AnnotationIntent] != "forged" || len(pod.Labels) != 1 {
		t.Error("the manifest was changed")
	}
}

func TestHostnames(t *testing.T) {
	yes := true
	for _, c := range []struct {
		change func(*corev1.Pod)
		want   string
		fails  bool
	}{
		{nil, "web", false},
		{func(p *corev1.Pod) { p.Spec.Hostname = "box" }, "box", false},
		{func(p *corev1.Pod) { p.Name = strings.Repeat("a", 62) + "-b" }, strings.Repeat("a", 62), false},
		{func(p *corev1.Pod) { p.Spec.Subdomain = "sub" }, "web", false},
		{func(p *corev1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "sub", &yes },
			"web.sub.default.svc.cluster.local", false},
		{func(p *corev1.Pod) { p.Spec.SetHostnameAsFQDN = &yes }, "web", false},
		{func(p *corev1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = strings.Repeat("h", 60), "sub", &yes
		}, "", true},
	} {
		got, err := testDriver().sandboxHostname(testPod(c.change))
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("got %q, %v; want %q", got, err, c.want)
		}
	}
}

func TestHostsFiles(t *testing.T) {
	d := testDriver()
	d.opts.Network.HostsFile = filepath.Join(t.TempDir(), "hosts")
	must.OK(t, os.WriteFile(d.opts.Network.HostsFile, []byte("127.0.0.1 here\n"), 0o600))
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.Subdomain = "sub"
		p.Spec.HostAliases = []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}}
	})
	got, err := d.hostsContent(pod, []string{"10.0.0.1"})
	must.OK(t, err)
	for _, want := range []string{"# Kubernetes-managed hosts file.\n",
		"10.0.0.1\tweb.sub.default.svc.cluster.local\tweb\n", "\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	pod.Spec.HostNetwork = true
	if got, err = d.hostsContent(pod, nil); err != nil ||
		!strings.Contains(string(got), "(host network).\n127.0.0.1 here\n") || !strings.Contains(string(got), "1.2.3.4\ta") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestContainerConfigMatchesKubelet(t *testing.T) {
	grace := int64(20)
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = &grace
		c := &p.Spec.Containers[0]
		c.Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
		c.Command, c.Args = []string{"run", "$(A)"}, []string{"$$(A)", "$(B)"}
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
		c.TerminationMessagePath, c.TerminationMessagePolicy = "/dev/termination-log", corev1.TerminationMessageReadFile
		c.TTY, c.Stdin, c.WorkingDir = true, true, "/w"
	})
	in := containerInput{
		pod: pod, container: &pod.Spec.Containers[0], attempt: 2, intent: "i", image: imageInfo{ref: "sha256:9"},
	}
	var err error
	in.envs, _, err = testDriver().environment(t.Context(), in, &in.budget)
	must.OK(t, err)
	got, err := testDriver().containerConfig(in)
	must.OK(t, err)
	wantAnnotations := map[string]string{
		AnnotationHash: "cafe", AnnotationRestartCount: "2", AnnotationTerminationMessagePath: "/dev/termination-log",
		AnnotationTerminationMessagePolicy: "File", AnnotationTerminationGracePeriod: "20",
		AnnotationPorts: `[{"containerPort":80,"protocol":"TCP"}]`, AnnotationIntent: "i", AnnotationAgent: "agent-1",
	}
	if !reflect.DeepEqual(got.Annotations, wantAnnotations) {
		t.Errorf("annotations %v", got.Annotations)
	}
	if !reflect.DeepEqual(got.Command, []string{"run", "1"}) || !reflect.DeepEqual(got.Args, []string{"$(A)", "$(B)"}) {
		t.Errorf("command %q %q", got.Command, got.Args)
	}
	if got.LogPath != "main/2.log" || got.Metadata.Attempt != 2 || got.Image.Image != "sha256:9" ||
		got.Image.UserSpecifiedImage != "busybox" ||
		!got.Tty || !got.Stdin || got.WorkingDir != "/w" || got.Labels[LabelContainerName] != "main" || len(got.Labels) != 4 {
		t.Errorf("got %v", got)
	}
}

func TestImageNames(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for in, want := range map[string]string{
		"busybox": "busybox:latest", "busybox:1": "busybox:1", "r.example:5000/a/b": "r.example:5000/a/b:latest",
		"busybox" + digest: "busybox" + digest, "busybox:1" + digest: "busybox:1" + digest,
		"UPPER/app:1": "UPPER/app:1", "LOCALHOST/a": "LOCALHOST/a:latest", "index.docker.io/a": "index.docker.io/a:latest",
		"": "", " busybox": "", "UPPER": "", "a b": "", "busybox:": "", "a..b": "", "a___b": "", "a//b": "", "-a": "",
		"a-": "", "a-/b": "", "aa:-x": "", "aa:.x": "", "reg_io:5000/aa": "", "REG_IO:5000/aa": "", "reg.io./aa": "",
		"reg-.io/aa": "", strings.Repeat("a", 64): "",
	} {
		got, err := withTag(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q gives %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestAppArmorProfileIsThatOfFieldThenAnnotationThenPod(t *testing.T) {
	mine := "mine"
	field := func(kind corev1.AppArmorProfileType, local *string) *corev1.AppArmorProfile {
		return &corev1.AppArmorProfile{Type: kind, LocalhostProfile: local}
	}
	for name, c := range map[string]struct {
		own, ofPod *corev1.AppArmorProfile
		annotation string
		want       *runtimeapi.SecurityProfile
		old        string
	}{
		"none": {},
		"the container's field": {
			own:   field(corev1.AppArmorProfileTypeLocalhost, &mine),
			ofPod: field(corev1.AppArmorProfileTypeUnconfined, nil), annotation: "unconfined",
			want: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "mine"},
			old:  "localhost/mine",
		},
		"the annotation": {
			ofPod: field(corev1.AppArmorProfileTypeUnconfined, nil), annotation: "runtime/default",
			want: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, old: "runtime/default",
		},
		"a local profile by annotation": {
			annotation: "localhost/a/b",
			want:       &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "a/b"},
			old:        "localhost/a/b",
		},
		"the pod's field": {
			ofPod: field(corev1.AppArmorProfileTypeUnconfined, nil),
			want:  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, old: "unconfined",
		},
	} {
		pod := testPod(func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: c.ofPod}
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: c.own}
			if c.annotation != "" {
				p.Annotations[apparmor.AnnotationPrefix+"main"] = c.annotation
			}
		})
		sc, err := testDriver().containerSecurity(containerInput{pod: pod, container: &pod.Spec.Containers[0]})
		must.OK(t, err)
		if !proto.Equal(sc.GetApparmor(), c.want) || sc.GetApparmorProfile() != c.old { //nolint:staticcheck // see confine
			t.Errorf("%s: %v", name, sc)
		}
	}
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: field("Strict", nil)}
	})
	if _, err := testDriver().containerSecurity(containerInput{pod: pod, container: &pod.Spec.Containers[0]}); err == nil {
		t.Error("an unknown type was accepted")
	}
}

func TestThermalCountersOfEachCPUAreMasked(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{
		"cpu0/thermal_throttle", "cpu10/thermal_throttle", "cpu2/thermal_throttle", "cpu3", "cpufreq",
	} {
		must.OK(t, os.MkdirAll(filepath.Join(root, "sys/devices/system/cpu", dir), 0o750))
	}
	masked := maskedPaths(root)
	if got, want := masked[len(maskedOnEveryHost):], []string{
		"/sys/devices/system/cpu/cpu0/thermal_throttle", "/sys/devices/system/cpu/cpu2/thermal_throttle",
		"/sys/devices/system/cpu/cpu10/thermal_throttle",
	}; !slices.Equal(got, want) {
		t.Errorf("masked %q", got)
	}
	if !slices.Contains(masked, "/proc/kcore") {
		t.Error("the paths of every host are missing")
	}
}
