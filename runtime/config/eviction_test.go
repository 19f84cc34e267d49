package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/test/must"
)

func TestEvictionThresholdsAreNotAllocatable(t *testing.T) {
	const memory = int64(4 << 30)
	for name, one := range map[string]struct {
		hard   map[string]string
		merge  bool
		memory int64   // that is not allocatable
		disk   float64 // the share that is not
	}{
		"the kubelet's defaults":         {nil, false, 100 << 20, .1},
		"quantities replace all of them": {map[string]string{memoryAvailable: "1Gi"}, false, 1 << 30, 0},
		"merged with the defaults":       {map[string]string{memoryAvailable: "1Gi"}, true, 1 << 30, .1},
		"percentages": {
			map[string]string{memoryAvailable: "25%", nodefsAvailable: "5%"}, false, 1 << 30, .05,
		},
		"off":           {map[string]string{memoryAvailable: "0%", nodefsAvailable: "100%"}, false, 0, 0},
		"none":          {map[string]string{}, false, 0, 0},
		"other signals": {map[string]string{"pid.available": "10%"}, false, 0, 0},
	} {
		c := Defaults()
		c.Eviction = Eviction{Hard: one.hard, MergeDefaults: one.merge}
		must.OK(t, c.Validate())
		f, err := c.nodeFacts(machine(t), "h", networkOf("", ""))
		must.OK(t, err)
		disk := int64(float64(f.Capacity.EphemeralStorageBytes) * float64(float32(one.disk*100)/100))
		if memory-f.Allocatable.MemoryBytes != one.memory || f.Enforced.MemoryBytes != memory ||
			f.Capacity.EphemeralStorageBytes-f.Allocatable.EphemeralStorageBytes != disk ||
			f.Enforced.EphemeralStorageBytes != f.Capacity.EphemeralStorageBytes {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestReservedCPUsReplaceTheOthers(t *testing.T) {
	c := Defaults()
	c.SystemReserved, c.KubeReserved = map[string]string{"cpu": "3"}, map[string]string{"cpu": "1"}
	c.ReservedSystemCPUs = "1,6-7"
	f, err := c.nodeFacts(machine(t), "h", networkOf("", ""))
	must.OK(t, err)
	if f.Capacity.MilliCPU != 5000 || f.Enforced.MilliCPU != 2000 || f.Allocatable.MilliCPU != 2000 {
		t.Errorf("%+v", f)
	}
	c.ReservedSystemCPUs = "1,5"
	_, err = c.nodeFacts(machine(t), "h", networkOf("", ""))
	if err == nil || !strings.Contains(err.Error(), "0-1,4,6-7") {
		t.Errorf("a CPU that the machine does not have was reserved: %v", err)
	}
}

func TestMoreThanTheCapacityIsNotReservedForEviction(t *testing.T) {
	c := Defaults()
	c.SystemReserved = map[string]string{"memory": "4000Mi"}
	_, err := c.nodeFacts(machine(t), "h", networkOf("", ""))
	if err == nil || !strings.Contains(err.Error(), "evictionHard") {
		t.Errorf("got %v", err)
	}
}

func TestThresholdsOfNoKubeletAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{memory.free: 1Gi}":           `there is no signal "memory.free"`,
		"{memory.available: x}":        `memory.available: found "x"`,
		`{memory.available: "0"}`:      `memory.available: found "0"`,
		`{memory.available: "-1Gi"}`:   `memory.available: found "-1Gi"`,
		`{nodefs.available: "101%"}`:   `nodefs.available: found "101%"`,
		`{nodefs.available: "-1%"}`:    `nodefs.available: found "-1%"`,
		`{nodefs.available: "NaN%"}`:   `nodefs.available: found "NaN%"`,
		`{nodefs.inodesFree: "a lot"}`: `nodefs.inodesFree: found "a lot"`,
	} {
		c, _, err := load(t, "--config", write(t, filepath.Join(t.TempDir(), "c.yaml"), head+"evictionHard: "+text+"\n"))
		must.OK(t, err)
		if err = c.Validate(); err == nil || !strings.Contains(err.Error(), "evictionHard (--eviction-hard): "+want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestThresholdsWithoutEffectAreReported(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+
		"evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\nreservedSystemCPUs: 0-1\n")
	c, problems := mustLoad(t, "--config", file)
	if got := named(problems); !slices.Equal(got, []string{"reservedSystemCPUs"}) ||
		problems[0].File != file || c.Eviction.Thresholds()["nodefs.available"] != "10%" || c.ReservedSystemCPUs != "0-1" {
		t.Errorf("problems %v, %+v", problems, c.Eviction)
	}
	c, problems = mustLoad(t, "--config", file, "--eviction-hard", "memory.available<2Gi,nodefs.available<5%")
	if c.Eviction.Hard["memory.available"] != "2Gi" || c.Eviction.Hard["nodefs.available"] != "5%" || len(problems) != 1 {
		t.Errorf("problems %v, %+v", problems, c.Eviction)
	}
	text := "evictionHard: {memory.available: 1Gi, containerfs.available: 5%, nodefs.available: 10%}\n" +
		"evictionSoft: {memory.available: 1Gi, nodefs.available: 15%, imagefs.available: 1Gi}\n" +
		"evictionSoftGracePeriod: {memory.available: 1m, nodefs.available: 1m, imagefs.available: 1m, pid.available: 1m}\n" +
		"evictionMinimumReclaim: {nodefs.available: 1Gi, nodefs.inodesFree: 5%}\n"
	c, problems = mustLoad(t, "--config", write(t, file, head+text))
	must.OK(t, c.Validate())
	var got []string
	for _, p := range problems {
		got = append(got, p.Field+": "+p.Message)
	}
	want := []string{
		"evictionSoft: memory.available: 1Gi is not above the hard threshold 1Gi, which acts first: it has no effect",
		"evictionSoftGracePeriod: pid.available has no soft threshold: it has no effect",
		"evictionMinimumReclaim: nodefs.inodesFree has no threshold: it has no effect",
		"evictionHard: containerfs.available follows the thresholds of nodefs or imagefs, as in the kubelet: " +
			"this one has no effect",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestThresholdsInEffect(t *testing.T) {
	e := Defaults().Eviction
	if got := len(e.Parsed(true)); got != 6 {
		t.Errorf("%d thresholds by default", got)
	}
	e.Hard = map[string]string{memoryAvailable: "0.1Gi", nodefsAvailable: "0%", "pid.available": "10%"}
	e.Soft = map[string]string{memoryAvailable: "1G"}
	e.SoftGrace = map[string]string{memoryAvailable: "90s"}
	e.MinReclaim = map[string]string{memoryAvailable: "0", "pid.available": "5%"}
	want := []pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Value: pressure.Amount{Quantity: 107374183}, Text: "107374182400m"},
		{Signal: pressure.PIDAvailable, Value: pressure.Amount{Percentage: .1}, MinReclaim: pressure.Amount{Percentage: .05}},
		{Signal: pressure.MemoryAvailable, Value: pressure.Amount{Quantity: 1e9}, Text: "1G", Soft: true,
			Grace: 90 * time.Second},
	}
	if got := e.Parsed(false); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSoftThresholdsOfNoKubeletAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"evictionSoft: {memory.available: 1Gi}":              "memory.available: it has no grace",
		"evictionSoft: {memory.free: 1Gi}":                   `there is no signal "memory.free"`,
		"evictionSoftGracePeriod: {memory.available: \"5\"}": `found "5", want a duration`,
		"evictionSoftGracePeriod: {memory.available: -5s}":   `found "-5s", want a duration`,
		"evictionMinimumReclaim: {memory.available: \"0%\"}": `found "0%", want a quantity`,
		"evictionMinimumReclaim: {memory.available: \"-1\"}": `found "-1", want a quantity`,
		"evictionMaxPodGracePeriod: -1":                      "evictionMaxPodGracePeriod",
		"evictionPressureTransitionPeriod: -1s":              "evictionPressureTransitionPeriod",
		"evictionMinimumReclaim: {nodefs.inodesFree: some}":  `found "some"`,
	} {
		c, _, err := load(t, "--config", write(t, filepath.Join(t.TempDir(), "c.yaml"), head+text+"\n"))
		if err == nil {
			err = c.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// As the kubelet, which skips such a threshold before it looks for its grace period.
func TestSoftThresholdThatIsOffNeedsNoGracePeriod(t *testing.T) {
	text := head + "evictionSoft: {memory.available: 0%, nodefs.available: 100%}\n"
	c, _, err := load(t, "--config", write(t, filepath.Join(t.TempDir(), "c.yaml"), text))
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Error(err)
	}
}

func TestFlagsOfAClusterAreReportedWithoutOne(t *testing.T) {
	args := []string{"--offline-secrets", "/keys", "--register-node=false", "--client-ca-file", "/ca", "--port", "10250"}
	_, problems := mustLoad(t, args...)
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{"--client-ca-file: " + noCluster, "--offline-secrets: " + noCluster, "--register-node: " + noCluster}
	if !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
	if _, problems = mustLoad(t, append(args, "--kubeconfig", "/k")...); len(problems) != 0 {
		t.Errorf("in a cluster: %v", problems)
	}
}

// TestEveryHonouredFieldIsInEffect sets every field that is applied, and reads it again from /configz.
func TestEveryHonouredFieldIsInEffect(t *testing.T) {
	const text = head + `
staticPodPath: /pods
fileCheckFrequency: 21s
staticPodURL: http://host/pods
httpCheckFrequency: 22s
enableServer: false
enableDebuggingHandlers: false
enableProfilingHandler: false
enableDebugFlagsHandler: false
enableSystemLogHandler: true
enableSystemLogQuery: true
streamingConnectionIdleTimeout: 1h0m0s
healthzPort: 10249
healthzBindAddress: 127.0.0.2
clusterDomain: c.local
clusterDNS: [10.0.0.10]
resolvConf: /resolv.conf
containerRuntimeEndpoint: unix:///run/x.sock
imageServiceEndpoint: unix:///run/x.sock
runtimeRequestTimeout: 3m0s
podLogsDir: /logs
registryPullQPS: 6
registryBurst: 11
maxParallelImagePulls: 1
serializeImagePulls: true
imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages
preloadedImagesVerificationAllowlist: [a/b]
maxPods: 7
podCIDR: 10.1.0.0/24,fd00:1::/64
podPidsLimit: 99
seccompDefault: true
cgroupRoot: /c
cgroupsPerQOS: true
cgroupDriver: systemd
enforceNodeAllocatable: [none]
systemReserved: {cpu: 100m}
kubeReserved: {memory: 1Mi}
reservedSystemCPUs: "0"
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
memoryManagerPolicy: Static
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]
topologyManagerPolicy: restricted
topologyManagerScope: pod
topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
evictionHard: {memory.available: 1Gi}
mergeDefaultEvictionSettings: false
protectKernelDefaults: true
memorySwap: {swapBehavior: LimitedSwap}
userNamespaces: {idsPerPod: 131072}
crashLoopBackOff: {maxContainerRestartPeriod: 10s}
volumeStatsAggPeriod: 2m0s
imageMinimumGCAge: 1m0s
imageMaximumGCAge: 48h0m0s
imageGCHighThresholdPercent: 60
imageGCLowThresholdPercent: 50
containerLogMaxSize: 1Mi
containerLogMaxFiles: 2
containerLogMaxWorkers: 3
containerLogMonitorInterval: 4s
shutdownGracePeriod: 30s
shutdownGracePeriodCriticalPods: 10s
address: 10.0.0.1
port: 10350
readOnlyPort: 10255
tlsCertFile: /c.pem
tlsPrivateKeyFile: /k.pem
tlsCipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]
tlsCurvePreferences: [29]
tlsMinVersion: VersionTLS13
authentication: {x509: {clientCAFile: /ca.crt}, webhook: {enabled: false, cacheTTL: 1m0s}, anonymous: {enabled: true}}
authorization: {mode: AlwaysAllow, webhook: {cacheAuthorizedTTL: 1m0s, cacheUnauthorizedTTL: 2m0s}}
rotateCertificates: true
serverTLSBootstrap: true
eventRecordQPS: 8
eventBurst: 9
contentType: application/json
kubeAPIQPS: 12
kubeAPIBurst: 13
registerNode: false
registerWithTaints: [{key: k, value: v, effect: NoSchedule}]
providerID: p
nodeStatusUpdateFrequency: 11s
nodeStatusReportFrequency: 2m0s
nodeLeaseDurationSeconds: 80
nodeStatusMaxImages: 5
evictionSoft: {memory.available: 2Gi}
evictionSoftGracePeriod: {memory.available: 1m30s}
evictionMinimumReclaim: {memory.available: 100Mi}
evictionMaxPodGracePeriod: 30
evictionPressureTransitionPeriod: 2m0s
oomScoreAdj: -500
memoryThrottlingFactor: 0.9
memoryReservationPolicy: TieredReservation
makeIPTablesUtilChains: false
allowedUnsafeSysctls: [net.core.*]
cpuCFSQuota: false
cpuCFSQuotaPeriod: 50ms
singleProcessOOMKill: true
podsPerCore: 3
localStorageCapacityIsolation: false
featureGates: {PodsAPI: false}
`
	c := Defaults()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	c.AddFlags(flags)
	must.OK(t, flags.Parse([]string{
		"--config", write(t, filepath.Join(t.TempDir(), "c.yaml"), text), "--kubeconfig", "/k",
	}))
	_, err := c.Load(flags)
	must.OK(t, err)
	must.OK(t, c.Validate())
	k, err := c.KubeletConfiguration()
	must.OK(t, err)
	data, err := json.Marshal(k)
	must.OK(t, err)
	var got, want map[string]any
	must.OK(t, json.Unmarshal(data, &got))
	must.OK(t, yaml.Unmarshal([]byte(text), &want))
	// Headers are withheld, groups exclude the two periods, cgroups of daemons exclude reserved CPUs, and the last two
	// have parts that are not carried out.
	elsewhere := []string{"staticPodURLHeader", "shutdownGracePeriodByPodPriority", "systemReservedCgroup",
		"kubeReservedCgroup", "logging", "tracing"}
	for name, f := range fields {
		if f.ignored != "" || slices.Contains(elsewhere, name) {
			continue
		}
		if want[name] == nil {
			t.Errorf("%s is honoured, and this test does not set it", name)
		} else if !reflect.DeepEqual(got[name], want[name]) {
			t.Errorf("%s is %v in effect, want %v", name, got[name], want[name])
		}
	}
}

func TestQueriesOfSystemLogsNeedTheirHandler(t *testing.T) {
	for text, want := range map[string]string{
		"enableSystemLogHandler: false\n":                             "",
		"enableSystemLogQuery: true\n":                                "",
		"enableSystemLogHandler: false\nenableSystemLogQuery: true\n": "enableSystemLogQuery: it is true",
	} {
		c := Defaults()
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		c.AddFlags(flags)
		must.OK(t, flags.Parse([]string{"--config", write(t, filepath.Join(t.TempDir(), "c.yaml"), head+text)}))
		_, err := c.Load(flags)
		must.OK(t, err)
		err = c.Validate()
		if got := fmt.Sprint(err); err == nil && want != "" || err != nil && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		k, err := c.KubeletConfiguration()
		must.OK(t, err)
		data, err := json.Marshal(k)
		must.OK(t, err)
		for _, shown := range []string{
			fmt.Sprintf(`"enableSystemLogHandler":%v`, !strings.Contains(text, "Handler: false")),
			fmt.Sprintf(`"enableSystemLogQuery":%v`, strings.Contains(text, "Query: true")),
		} {
			if !strings.Contains(string(data), shown) {
				t.Errorf("%s: %s is not in effect: %s", text, shown, data)
			}
		}
	}
}
