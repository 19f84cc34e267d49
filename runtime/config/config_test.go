package config

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/test/must"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func write(t *testing.T, path, text string) string {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o750))
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func load(t *testing.T, args ...string) (*Config, []Problem, error) {
	t.Helper()
	c := Defaults()
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	c.AddFlags(fs)
	must.OK(t, fs.Parse(args))
	problems, err := c.Load(fs)
	return c, problems, err
}

func mustLoad(t *testing.T, args ...string) (*Config, []Problem) {
	t.Helper()
	c, problems, err := load(t, args...)
	must.OK(t, err)
	must.OK(t, c.Validate())
	return c, problems
}

func named(problems []Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.Field)
	}
	return out
}

func TestEveryFieldOfTheAPIIsClassified(t *testing.T) {
	inType := map[string]bool{"apiVersion": true, "kind": true}
	k := reflect.TypeFor[kubeletconfig.KubeletConfiguration]()
	for i := range k.NumField() {
		if name := jsonName(k.Field(i)); name != "" {
			inType[name] = true
		}
	}
	for name := range inType {
		if f, ok := fields[name]; !ok || (f.ignored == "") == (f.apply == nil) {
			t.Errorf("%s: want it either applied or ignored", name)
		}
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Defaults().AddFlags(fs)
	for name, f := range fields {
		if !inType[name] {
			t.Errorf("%s: not a field of the API", name)
		}
		if f.flag != "" && fs.Lookup(f.flag) == nil {
			t.Errorf("%s: no flag --%s", name, f.flag)
		}
		if _, err := decodeField(f.def, name, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestDefaultsAreValidAndExplicitDefaultsGiveNoWarning(t *testing.T) {
	c, problems := mustLoad(t)
	if len(problems) > 0 || c.StaticPodPath != DefaultStaticPodPath || c.MaxPods != 110 {
		t.Fatalf("%v, %+v", problems, c)
	}
	text := head
	for name, f := range fields {
		if f.def != "" {
			text += name + ": " + f.def + "\n"
		}
	}
	if _, problems = mustLoad(t, "--config",
		write(t, filepath.Join(t.TempDir(), "config.yaml"), text)); len(problems) > 0 {
		t.Fatalf("warnings on defaults: %v", problems)
	}
}

func TestKubeletConfigurationLoads(t *testing.T) {
	c, problems := mustLoad(t, "--config", "testdata/kubeadm.yaml")
	if got, want := named(problems), []string{"authentication", "rotateCertificates"}; !slices.Equal(got, want) {
		t.Errorf("warnings on %v, want %v", got, want)
	}
	if c.StaticPodPath != "/etc/kubernetes/manifests" || c.ResolvConf != "/run/systemd/resolve/resolv.conf" ||
		!slices.Equal(c.ClusterDNS, []string{"10.96.0.10"}) || c.ClusterDomain != "cluster.local" ||
		c.ContainerRuntimeEndpoint != "unix:///var/run/containerd/containerd.sock" ||
		c.FileCheckFrequency != DefaultFileCheck || c.RuntimeRequestTimeout != DefaultRequestTimeout {
		t.Errorf("%+v", c)
	}
}

func TestSupportedFieldsAreApplied(t *testing.T) {
	dir := t.TempDir()
	c, problems := mustLoad(t, "--config", write(t, filepath.Join(dir, "c.yaml"), head+`
staticPodPath: pods
fileCheckFrequency: 5s
volumeStatsAggPeriod: 2m
runtimeRequestTimeout: 3m
maxPods: 7
podLogsDir: /logs
imageServiceEndpoint: unix:///run/containerd/containerd.sock
registryPullQPS: 0
registryBurst: 3
maxParallelImagePulls: 4
imageMinimumGCAge: 1m
imageMaximumGCAge: 48h
imageGCHighThresholdPercent: 60
imageGCLowThresholdPercent: 50
containerLogMaxSize: 1Mi
containerLogMaxFiles: 2
containerLogMaxWorkers: 3
containerLogMonitorInterval: 4s
resolvConf: ""
healthzPort: 0
healthzBindAddress: "::1"
seccompDefault: true
systemReserved: {cpu: 100m, memory: 1Gi, pid: "100"}
kubeReserved: {ephemeral-storage: 1Mi}
crashLoopBackOff: {maxContainerRestartPeriod: 10s}
logging: {verbosity: 3, format: json, vmodule: [{filePattern: a, verbosity: 2}]}
`))
	want := Defaults()
	want.ConfigFile = c.ConfigFile
	want.StaticPodPath, want.FileCheckFrequency, want.RuntimeRequestTimeout = filepath.Join(dir, "pods"),
		5*time.Second, 3*time.Minute
	want.MaxPods, want.PodLogDir, want.ImageServiceEndpoint = 7, "/logs", DefaultEndpoint
	want.VolumeStatsAggPeriod = 2 * time.Minute
	want.RegistryPullQPS, want.RegistryBurst, want.MaxParallelImagePulls = 0, 3, 4
	want.ImageGC = ImageGC{HighPercent: 60, LowPercent: 50, MinAge: time.Minute, MaxAge: 48 * time.Hour}
	want.ContainerLogs = ContainerLogs{MaxSize: "1Mi", MaxFiles: 2, MaxWorkers: 3, MonitorInterval: 4 * time.Second}
	want.ResolvConf, want.HealthzPort, want.HealthzBindAddress, want.SeccompDefault = "", 0, "::1", true
	want.SystemReserved = map[string]string{"cpu": "100m", "memory": "1Gi", "pid": "100"}
	want.KubeReserved = map[string]string{"ephemeral-storage": "1Mi"}
	want.MaxContainerRestartPeriod, want.Verbosity, want.LogFormat = 10*time.Second, 3, LogJSON
	want.NodeLabels, want.ClusterDNS = c.NodeLabels, c.ClusterDNS
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	if got := named(problems); !slices.Equal(got, []string{"logging.vmodule"}) {
		t.Errorf("warnings on %v", got)
	}
}

func TestFlagsWinOverDropInsAndDropInsOverTheFile(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "c.yaml"), head+"maxPods: 1\nclusterDomain: a\nclusterDNS: [10.0.0.1]\n"+
		"systemReserved: {cpu: \"1\", memory: 1Gi}\nseccompDefault: true\nlogging: {verbosity: 5}\n")
	write(t, filepath.Join(dir, "d", "20.conf"), head+"maxPods: 3\nclusterDNS: [10.0.0.3]\n")
	write(t, filepath.Join(dir, "d", "10.conf"),
		head+"maxPods: 2\nclusterDomain: b\nsystemReserved: {cpu: \"2\"}\nseccompDefault: null\n")
	write(t, filepath.Join(dir, "d", "30.yaml"), head+"maxPods: 9\n")
	c, _ := mustLoad(t, "--config", file, "--config-dir", filepath.Join(dir, "d"), "--cluster-domain", "flag", "--v", "0")
	if c.MaxPods != 3 || c.ClusterDomain != "flag" || !slices.Equal(c.ClusterDNS, []string{"10.0.0.3"}) ||
		c.SystemReserved["cpu"] != "2" || c.SystemReserved["memory"] != "1Gi" || c.SeccompDefault || c.Verbosity != 0 {
		t.Errorf("%+v", c)
	}
	// A flag that repeats the default still wins.
	if c, _ = mustLoad(t, "--config", file, "--max-pods", "110", "--pod-manifest-path", "/p"); c.MaxPods != 110 ||
		c.StaticPodPath != "/p" {
		t.Errorf("%+v", c)
	}
}

func TestUnsupportedFieldsAreNamedWithTheirFile(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "c.yaml"), head+"qosReserved: {memory: 50%}\nmaxPodz: 3\nlogging: {verbos: 1}\n"+
		"staticPodURLHeader: {Authorization: [Bearer-canary]}\nmaxPods: 1\nmaxPods: 2\n")
	_, problems, err := load(t, "--config", file)
	must.OK(t, err)
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{
		file + ": qosReserved: not supported yet, ignored",
		file + ": maxPodz: unknown field", file + ": logging.verbos: unknown field", "duplicate",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "canary") {
		t.Errorf("a value is shown:\n%s", text)
	}
}

func TestContradictionsAndValuesOutOfBoundsAreRejected(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"pulls":       {"serializeImagePulls: true\nmaxParallelImagePulls: 2", "contradicts"},
		"no pulls":    {"maxParallelImagePulls: 0", "maxParallelImagePulls"},
		"pods":        {"maxPods: -1", "maxPods"},
		"type":        {"maxPods: many", "maxPods"},
		"pod CIDR":    {"podCIDR: 10.1.0.0", "podCIDR (--pod-cidr): \"10.1.0.0\" is no CIDR"},
		"pod CIDRs":   {"podCIDR: 10.1.0.0/24,10.2.0.0/24", "one family"},
		"image":       {"imageServiceEndpoint: unix:///other.sock", "imageServiceEndpoint"},
		"verify":      {"imagePullCredentialsVerificationPolicy: Sometimes", "imagePullCredentialsVerificationPolicy"},
		"verify all":  {"preloadedImagesVerificationAllowlist: [a]", "preloadedImagesVerificationAllowlist"},
		"gc above":    {"imageGCHighThresholdPercent: 101", "imageGCHighThresholdPercent"},
		"gc below":    {"imageGCLowThresholdPercent: 85", "not below"},
		"gc age":      {"imageMinimumGCAge: -1s", "imageMinimumGCAge"},
		"gc ages":     {"imageMaximumGCAge: 2m", "not above"},
		"log size":    {"containerLogMaxSize: much", "containerLogMaxSize"},
		"log bytes":   {"containerLogMaxSize: 1500m", "containerLogMaxSize"},
		"log files":   {"containerLogMaxFiles: 1", "containerLogMaxFiles"},
		"log workers": {"containerLogMaxWorkers: 0", "containerLogMaxWorkers"},
		"log monitor": {"containerLogMonitorInterval: 2s", "containerLogMonitorInterval"},
		"endpoint":    {"containerRuntimeEndpoint: tcp://1.2.3.4:5", "containerRuntimeEndpoint"},
		"back-off":    {"crashLoopBackOff: {maxContainerRestartPeriod: 301s}", "maxContainerRestartPeriod"},
		"dns":         {"clusterDNS: [dns.local]", "clusterDNS"},
		"check":       {"fileCheckFrequency: 1ms", "fileCheckFrequency"},
		"volumeStats": {"volumeStatsAggPeriod: 1ms", "volumeStatsAggPeriod"},
		"negative":    {"runtimeRequestTimeout: -1s", "runtimeRequestTimeout"},
		"reserved":    {"kubeReserved: {cpu: \"-1\"}", "kubeReserved"},
		"reserved of": {"systemReserved: {gpu: \"1\"}", "gpu"},
		"port":        {"healthzPort: 70000", "healthzPort"},
		"format":      {"logging: {format: xml}", "logging.format"},
		"kind":        {"kind: Pod", "want \"kubelet.config"},
		"syntax":      {"a: [", "invalid YAML"},
		"aliases":     {"a: &a " + strings.Repeat("x", 64<<10) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]", "aliases"},
	} {
		t.Run(name, func(t *testing.T) {
			text := head + c.text
			if name == "kind" {
				text = "apiVersion: v1\nkind: Pod\n"
			}
			got, _, err := load(t, "--config", write(t, filepath.Join(t.TempDir(), "c.yaml"), text))
			if err == nil {
				err = got.Validate()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want one on %q", err, c.want)
			}
		})
	}
	for _, args := range [][]string{
		{"--journal-sync", "never"}, {"--cri-concurrency", "0"}, {"--hostname-override", "a_b"}, {"--node-ip", "127.0.0.1"},
		{"--node-ip", "10.0.0.1,10.0.0.2"}, {"--node-ip", "::,10.0.0.1"},
		{"--node-ip", "0.0.0.0,::"},
		{"--node-ip", "::ffff:127.0.0.1"}, {"--node-ip", "ff02::1"}, {"--node-ip", "node.example"},
		{"--node-ip", "10.0.0.1,"}, {"--node-labels", "a b=c"}, {"--bus-listen", "4222"}, {"--root-dir", "/"},
		{"--bus-listen", ":4222"}, {"--bus-listen", "127.0.0.1:4222", "--bus-tls-cert-file", "/c"},
		{"--bus-tls-cert-file", "/c", "--bus-tls-private-key-file", "/k"},
		{"--static-pod-path", ""}, {"--config", "/no/such/file"}, {"--config-dir", "/no/such/dir"},
		{"--static-pod-path", "/a", "--pod-manifest-path", "/b"},
		{"--journal-retention-age", "1m"}, {"--journal-retention-age", "-1h"}, {"--journal-retention-bytes", "1Mi"},
		{"--sandbox-seccomp-profile", "Unconfined"},
		{"--journal-retention-bytes", "-1"}, {"--journal-retention-bytes", "much"}, {"--journal-retention-bytes", ""},
	} {
		c, _, err := load(t, args...)
		if err == nil {
			err = c.Validate()
		}
		if err == nil {
			t.Errorf("%v: accepted", args)
		}
	}
}

func TestRetentionDefaultsToAWeekOrTwoGibibytes(t *testing.T) {
	for args, want := range map[string]bus.Retention{
		"--v=0": {Age: 168 * time.Hour, Bytes: 2 << 30},
		"--journal-retention-age=0 --journal-retention-bytes=0":     {},
		"--journal-retention-age=1h --journal-retention-bytes=32Mi": {Age: time.Hour, Bytes: 32 << 20},
	} {
		c, _ := mustLoad(t, strings.Fields(args)...)
		if got, err := c.Retention(); err != nil || got != want || c.Validate() != nil {
			t.Errorf("%s: %+v, %v", args, got, err)
		}
	}
}

func TestProfilingIsOffByDefault(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"),
		head+"enableProfilingHandler: true\nenableContentionProfiling: true\n")
	if c, _ := mustLoad(t, "--config", file); c.Profiling {
		t.Error("profiling is on by default")
	}
	if c, _ := mustLoad(t, "--profiling"); !c.Profiling {
		t.Error("--profiling does nothing")
	}
}

func TestSerializedPullsRunOneAtATime(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+"serializeImagePulls: true\n")
	if c, _ := mustLoad(t, "--config", file); c.MaxParallelImagePulls != 1 {
		t.Errorf("%d pulls", c.MaxParallelImagePulls)
	}
}

func machine(t *testing.T) string {
	root := t.TempDir()
	write(t, filepath.Join(root, "proc/sys/kernel/random/boot_id"), "b-1\n")
	write(t, filepath.Join(root, "proc/meminfo"), "MemTotal:        4194304 kB\nMemFree: 1 kB\n")
	write(t, filepath.Join(root, "sys/devices/system/cpu/online"), "0-1,4,6-7\n")
	return root
}

func addr(t *testing.T, s string) net.Addr {
	ip, n, err := net.ParseCIDR(s)
	must.OK(t, err)
	n.IP = ip
	return n
}

// networkOf returns a network whose node name resolves to named, and whose default route leaves from routed.
func networkOf(named, routed string, addrs ...net.Addr) network {
	return network{addrs: addrs,
		lookUp: func(string) []net.IP {
			var ips []net.IP
			for _, s := range strings.Fields(named) {
				ips = append(ips, net.ParseIP(s))
			}
			return ips
		},
		byRoute: func(unspecified net.IP) (net.IP, error) {
			all := strings.Fields(routed)
			if len(all) == 0 {
				return nil, errors.New("no default route")
			}
			for _, s := range all {
				if ip := net.ParseIP(s); (ip.To4() != nil) == (unspecified.To4() != nil) {
					return ip, nil
				}
			}
			return net.ParseIP(all[0]), nil
		},
	}
}

func TestNodeAddressIsThatOfItsNameThenOfTheDefaultRoute(t *testing.T) {
	var addrs []net.Addr
	for _, s := range []string{"127.0.0.1/8", "172.17.0.1/16", "10.0.0.5/24", "2001:db8::1/64", "2001:db8::2/64"} {
		addrs = append(addrs, addr(t, s))
	}
	for _, one := range []struct{ flag, named, routed, want string }{
		{"", "", "", "172.17.0.1 2001:db8::1"},
		{"", "", "10.0.0.5", "10.0.0.5 2001:db8::1"},
		{"", "127.0.1.1", "10.0.0.5", "10.0.0.5 2001:db8::1"},
		{"", "198.51.100.7", "10.0.0.5", "10.0.0.5 2001:db8::1"},
		{"", "2001:db8::2 10.0.0.5", "172.17.0.1", "10.0.0.5 2001:db8::1"},
		{"", "2001:db8::2", "10.0.0.5", "2001:db8::2 172.17.0.1"},
		{"0.0.0.0", "2001:db8::2 10.0.0.5", "172.17.0.1", "10.0.0.5 2001:db8::1"},
		{"0.0.0.0", "", "2001:db8::2 10.0.0.5", "10.0.0.5 2001:db8::1"},
		{"::", "", "", "2001:db8::1 172.17.0.1"},
		{"::", "10.0.0.5 2001:db8::2", "10.0.0.5", "2001:db8::2 172.17.0.1"},
		{"::", "", "10.0.0.5 2001:db8::2", "2001:db8::2 172.17.0.1"},
		{"::", "10.0.0.5", "2001:db8::2", "10.0.0.5 2001:db8::1"},
		{"2001:db8::9,10.0.0.9", "10.0.0.5", "10.0.0.5", "2001:db8::9 10.0.0.9"},
	} {
		c := Defaults()
		c.NodeIP = one.flag
		ips, err := c.hostIPs("node", networkOf(one.named, one.routed, addrs...))
		if got := strings.Join(ips, " "); err != nil || got != one.want {
			t.Errorf("--node-ip %q, name %q, route %q: addresses %s, %v; want %s", one.flag, one.named, one.routed, got, err,
				one.want)
		}
	}
}

func TestAddressesAreGivenUnlessTheFlagNamesAFamily(t *testing.T) {
	for flag, want := range map[string]string{
		"": "", "::": "", "0.0.0.0": "", "::ffff:0.0.0.0": "", "192.0.2.1": "192.0.2.1",
		"2001:DB8:0::1, 192.0.2.1": "2001:db8::1 192.0.2.1",
	} {
		c := Defaults()
		c.NodeIP = flag
		if errs := c.validateNode(); len(errs) > 0 {
			t.Errorf("--node-ip %q: %v", flag, errs)
		}
		if got := strings.Join(c.GivenNodeIPs(), " "); got != want {
			t.Errorf("--node-ip %q gives %q, want %q", flag, got, want)
		}
	}
}

func TestAllocatableIsCapacityWithoutReservations(t *testing.T) {
	c := Defaults()
	c.RootDir = filepath.Join(t.TempDir(), "does", "not", "exist")
	c.SystemReserved = map[string]string{"cpu": "500m", "memory": "1Gi"}
	c.KubeReserved = map[string]string{"cpu": "1", "ephemeral-storage": "1Mi"}
	c.NodeLabels = map[string]string{"zone": "a"}
	var addrs []net.Addr
	for _, s := range []string{"127.0.0.1/8", "fe80::1/64", "2001:db8::1/64", "10.0.0.5/24", "10.0.0.6/24"} {
		addrs = append(addrs, addr(t, s))
	}
	f, err := c.nodeFacts(machine(t), "Host-1.Example", networkOf("", "", addrs...))
	must.OK(t, err)
	if f.NodeName != "host-1.example" || f.BootID != "b-1" ||
		!slices.Equal(f.HostIPs, []string{"10.0.0.5", "2001:db8::1"}) ||
		f.Labels["kubernetes.io/hostname"] != "host-1.example" || f.Labels["zone"] != "a" ||
		f.Capacity.MilliCPU != 5000 || f.Allocatable.MilliCPU != 3500 || f.Enforced.MemoryBytes != 3<<30 ||
		f.Allocatable.MemoryBytes != 3<<30-100<<20 ||
		f.Capacity.EphemeralStorageBytes-f.Enforced.EphemeralStorageBytes != 1<<20 ||
		f.Allocatable.EphemeralStorageBytes <= 0 {
		t.Errorf("%+v", f)
	}
	c.NodeIP, c.HostnameOverride = "192.0.2.1", "Other"
	if f, err = c.nodeFacts(machine(t), "bad_host", networkOf("", "", addrs...)); err != nil || f.NodeName != "other" ||
		!slices.Equal(f.HostIPs, []string{"192.0.2.1"}) {
		t.Errorf("%+v, %v", f, err)
	}
	// Together they are -2 in 64 bits.
	c.SystemReserved["memory"], c.KubeReserved["memory"] = "9223372036854775807", "9223372036854775807"
	if _, err = c.nodeFacts(machine(t), "h", networkOf("", "")); err == nil {
		t.Error("reservations that wrap around were accepted")
	}
	delete(c.KubeReserved, "memory")
	c.SystemReserved["memory"] = "5Gi"
	if _, err = c.nodeFacts(machine(t), "h", networkOf("", "")); err == nil {
		t.Error("more reserved than the capacity was accepted")
	}
	c.HostnameOverride = ""
	if _, err = c.nodeFacts(machine(t), "bad_host", networkOf("", "")); err == nil ||
		!strings.Contains(err.Error(), "--hostname-override") {
		t.Errorf("bad host name: %v", err)
	}
}

func TestNodeFactsOfThisMachine(t *testing.T) {
	c := Defaults()
	c.HostnameOverride = "n"
	f, err := c.NodeFacts()
	must.OK(t, err)
	if f.BootID == "" || f.Capacity.MilliCPU < 1000 || f.Capacity.MemoryBytes < 1<<20 ||
		f.Capacity.EphemeralStorageBytes <= 0 {
		t.Errorf("%+v", f)
	}
}

func TestAppArmorIsAFactOfTheNode(t *testing.T) {
	for name, c := range map[string]struct {
		mounted bool
		enabled string
		want    bool
	}{
		"enabled": {true, "Y\n", true}, "disabled": {true, "N\n", false}, "no module": {true, "", false},
		"not mounted": {false, "Y\n", false},
	} {
		root := machine(t)
		if c.mounted {
			write(t, filepath.Join(root, "sys/kernel/security/apparmor/profiles"), "")
		}
		if c.enabled != "" {
			write(t, filepath.Join(root, "sys/module/apparmor/parameters/enabled"), c.enabled)
		}
		cfg := Defaults()
		cfg.RootDir = t.TempDir()
		f, err := cfg.nodeFacts(root, "h", networkOf("", "", addr(t, "10.0.0.5/24")))
		must.OK(t, err)
		if f.AppArmor != c.want {
			t.Errorf("%s: %v", name, f.AppArmor)
		}
	}
}

func TestVerificationOfPulledImagesIsConfigured(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "config.yaml"), head+
		"imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\n"+
		"preloadedImagesVerificationAllowlist: [registry.example/team/*]\n")
	c, problems := mustLoad(t, "--config", file)
	if c.ImagePullVerification != "NeverVerifyAllowlistedImages" || len(c.PreloadedImages) != 1 || len(problems) > 0 {
		t.Errorf("policy %q, images %q, problems %v", c.ImagePullVerification, c.PreloadedImages, problems)
	}
}
