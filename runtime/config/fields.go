package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// What a word in a file is worth when it is not carried out.
const (
	notYet   = "not carried out by this version, ignored"
	noServer = "concerns the API server or the kubelet's own server, which this version does not have, ignored"
	obsolete = "has no effect in the kubelet either, ignored"
	ours     = "the agent knows better by itself, ignored"
)

// field says what becomes of one field of KubeletConfiguration.
type field struct {
	// ignored is the remark made when the field is set to something else than its default; empty: the field is honoured.
	ignored string
	// def is the API's default as JSON; empty: the zero value only.
	def string
	// flag is the flag that wins over the field; empty: there is none.
	flag string
	// apply carries the field out. A zero value means the default, as in the API: it is not called then, except for
	// pointers, which tell zero from unset.
	apply func(*Config, *kubeletconfig.KubeletConfiguration, string) error
}

// fields holds every field of KubeletConfiguration by its JSON name. A test compares it with the type, so that a new
// version of the API cannot bring a field that nobody has thought of. What the API calls contradictory, or what would
// undo a bound that its author relies on, is refused by the apply functions and by Validate.
var fields = map[string]field{
	"apiVersion": {apply: nothing}, "kind": {apply: nothing}, // checked for each file

	"staticPodPath": {flag: "static-pod-path", apply: func(c *Config, k *kubeletconfig.KubeletConfiguration, file string) error {
		c.StaticPodPath = besideFile(k.StaticPodPath, file)
		return nil
	}},
	"fileCheckFrequency": {apply: duration(func(k *kubeletconfig.KubeletConfiguration) time.Duration { return k.FileCheckFrequency.Duration },
		func(c *Config) *time.Duration { return &c.FileCheckFrequency })},
	"staticPodURL": {flag: "manifest-url", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.StaticPodURL = k.StaticPodURL })},
	"staticPodURLHeader": {flag: "manifest-url-header", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) {
		c.StaticPodURLHeader = k.StaticPodURLHeader
	})},
	"httpCheckFrequency": {flag: "http-check-frequency", apply: duration(func(k *kubeletconfig.KubeletConfiguration) time.Duration { return k.HTTPCheckFrequency.Duration },
		func(c *Config) *time.Duration { return &c.HTTPCheckFrequency })},
	"runtimeRequestTimeout": {apply: duration(func(k *kubeletconfig.KubeletConfiguration) time.Duration { return k.RuntimeRequestTimeout.Duration },
		func(c *Config) *time.Duration { return &c.RuntimeRequestTimeout })},
	"maxPods":    {flag: "max-pods", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.MaxPods = k.MaxPods })},
	"podLogsDir": {flag: "pod-log-dir", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.PodLogDir = k.PodLogsDir })},
	"containerRuntimeEndpoint": {flag: "container-runtime-endpoint", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) {
		c.ContainerRuntimeEndpoint = k.ContainerRuntimeEndpoint
	})},
	"imageServiceEndpoint": {flag: "image-service-endpoint", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) {
		c.ImageServiceEndpoint = k.ImageServiceEndpoint
	})},
	"registryPullQPS":       {apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.RegistryPullQPS = *k.RegistryPullQPS })},
	"registryBurst":         {apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.RegistryBurst = k.RegistryBurst })},
	"maxParallelImagePulls": {apply: parallelPulls},
	"serializeImagePulls":   {apply: parallelPulls},
	"resolvConf": {flag: "resolv-conf", apply: func(c *Config, k *kubeletconfig.KubeletConfiguration, file string) error {
		c.ResolvConf = besideFile(*k.ResolverConfig, file)
		return nil
	}},
	"clusterDNS":         {flag: "cluster-dns", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.ClusterDNS = k.ClusterDNS })},
	"clusterDomain":      {flag: "cluster-domain", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.ClusterDomain = k.ClusterDomain })},
	"healthzPort":        {flag: "healthz-port", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.HealthzPort = *k.HealthzPort })},
	"healthzBindAddress": {flag: "healthz-bind-address", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.HealthzBindAddress = k.HealthzBindAddress })},
	"seccompDefault":     {flag: "seccomp-default", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.SeccompDefault = *k.SeccompDefault })},
	"systemReserved":     {flag: "system-reserved", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.SystemReserved = k.SystemReserved })},
	"kubeReserved":       {flag: "kube-reserved", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.KubeReserved = k.KubeReserved })},
	"crashLoopBackOff": {apply: func(c *Config, k *kubeletconfig.KubeletConfiguration, _ string) error {
		if p := k.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
			c.MaxContainerRestartPeriod = p.Duration
		}
		return nil
	}},
	"cgroupRoot":    {flag: "cgroup-root", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.CgroupRoot = k.CgroupRoot })},
	"cgroupsPerQOS": {flag: "cgroups-per-qos", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.CgroupsPerQOS = *k.CgroupsPerQOS })},
	"cgroupDriver":  {flag: "cgroup-driver", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.CgroupDriver = k.CgroupDriver })},
	"enforceNodeAllocatable": {flag: "enforce-node-allocatable", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) {
		c.EnforceNodeAllocatable = k.EnforceNodeAllocatable
	})},
	"podPidsLimit": {flag: "pod-max-pids", apply: set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { c.PodPidsLimit = *k.PodPidsLimit })},
	"logging":      {apply: nothing}, // two flags win over its parts: applyLogging

	"syncFrequency": {ignored: "nothing is synced by the clock here, ignored", def: `"1m"`},

	"enableServer": {ignored: noServer, def: `true`}, "address": {ignored: noServer, def: `"0.0.0.0"`},
	"port": {ignored: noServer, def: `10250`}, "readOnlyPort": {ignored: noServer},
	"tlsCertFile": {ignored: noServer}, "tlsPrivateKeyFile": {ignored: noServer}, "tlsCipherSuites": {ignored: noServer},
	"tlsCurvePreferences": {ignored: noServer}, "tlsMinVersion": {ignored: noServer},
	"rotateCertificates": {ignored: noServer}, "serverTLSBootstrap": {ignored: noServer},
	"authentication":              {ignored: noServer, def: `{"anonymous":{"enabled":false},"webhook":{"enabled":true,"cacheTTL":"2m"}}`},
	"authorization":               {ignored: noServer, def: `{"mode":"Webhook","webhook":{"cacheAuthorizedTTL":"5m","cacheUnauthorizedTTL":"30s"}}`},
	"eventRecordQPS":              {ignored: noServer, def: `50`},
	"eventBurst":                  {ignored: noServer, def: `100`},
	"contentType":                 {ignored: noServer, def: `"application/vnd.kubernetes.protobuf"`},
	"kubeAPIQPS":                  {ignored: noServer, def: `50`},
	"kubeAPIBurst":                {ignored: noServer, def: `100`},
	"registerNode":                {ignored: noServer, def: `true`},
	"providerID":                  {ignored: noServer},
	"featureGates":                {ignored: "feature gates are the kubelet's, ignored"},
	"showHiddenMetricsForVersion": {ignored: noServer},
	"registerWithTaints":          {ignored: noServer},

	"enableDebuggingHandlers": {ignored: noServer, def: `true`}, "enableContentionProfiling": {ignored: noServer},
	"enableProfilingHandler": {ignored: noServer, def: `true`}, "enableDebugFlagsHandler": {ignored: noServer, def: `true`},
	"enableSystemLogHandler": {ignored: noServer, def: `true`}, "enableSystemLogQuery": {ignored: noServer, def: `false`},
	"nodeStatusUpdateFrequency": {ignored: noServer, def: `"10s"`}, "nodeStatusReportFrequency": {ignored: noServer, def: `"5m"`},
	"nodeLeaseDurationSeconds": {ignored: noServer, def: `40`}, "nodeStatusMaxImages": {ignored: noServer, def: `50`},
	"configMapAndSecretChangeDetectionStrategy": {ignored: noServer, def: `"Watch"`},
	"enableControllerAttachDetach":              {ignored: noServer, def: `true`},
	"streamingConnectionIdleTimeout":            {ignored: obsolete, def: `"4h"`},
	"iptablesMasqueradeBit":                     {ignored: obsolete, def: `14`},
	"iptablesDropBit":                           {ignored: obsolete, def: `15`},

	"imagePullCredentialsVerificationPolicy": {ignored: notYet, def: `"NeverVerifyPreloadedImages"`},
	"preloadedImagesVerificationAllowlist":   {ignored: notYet},
	"imageMinimumGCAge":                      {ignored: notYet, def: `"2m"`},
	"imageMaximumGCAge":                      {ignored: notYet},
	"imageGCHighThresholdPercent":            {ignored: notYet, def: `85`},
	"imageGCLowThresholdPercent":             {ignored: notYet, def: `80`},
	"containerLogMaxSize":                    {ignored: notYet, def: `"10Mi"`},
	"containerLogMaxFiles":                   {ignored: notYet, def: `5`},
	"containerLogMaxWorkers":                 {ignored: notYet, def: `1`},
	"containerLogMonitorInterval":            {ignored: notYet, def: `"10s"`},
	"volumeStatsAggPeriod":                   {ignored: notYet, def: `"1m"`},
	"volumePluginDir":                        {ignored: notYet, def: `"/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"`},
	"localStorageCapacityIsolation":          {ignored: notYet, def: `true`},

	"kubeletCgroups": {ignored: notYet}, "systemCgroups": {ignored: notYet},
	"systemReservedCgroup": {ignored: notYet}, "kubeReservedCgroup": {ignored: notYet}, "reservedSystemCPUs": {ignored: notYet},
	"qosReserved": {ignored: notYet}, "singleProcessOOMKill": {ignored: notYet, def: `false`},
	"cpuCFSQuota": {ignored: notYet, def: `true`}, "cpuCFSQuotaPeriod": {ignored: notYet, def: `"100ms"`},
	"cpuManagerPolicy": {ignored: notYet, def: `"none"`}, "cpuManagerPolicyOptions": {ignored: notYet},
	"cpuManagerReconcilePeriod": {ignored: notYet, def: `"10s"`}, "memoryManagerPolicy": {ignored: notYet, def: `"None"`},
	"topologyManagerPolicy": {ignored: notYet, def: `"none"`}, "topologyManagerScope": {ignored: notYet, def: `"container"`},
	"topologyManagerPolicyOptions": {ignored: notYet}, "reservedMemory": {ignored: notYet},
	"memoryThrottlingFactor": {ignored: notYet}, "memoryReservationPolicy": {ignored: notYet, def: `"None"`},
	"memorySwap":     {ignored: notYet, def: `{"swapBehavior":"NoSwap"}`},
	"failSwapOn":     {ignored: "swap is reported by `journalet check` and never keeps the agent from starting, ignored", def: `true`},
	"failCgroupV1":   {ignored: "cgroup v1 is served as long as the runtime serves it, ignored", def: `true`},
	"userNamespaces": {ignored: notYet, def: `{"idsPerPod":65536}`},

	"evictionHard":                     {ignored: notYet, def: `{"memory.available":"100Mi","nodefs.available":"10%","nodefs.inodesFree":"5%","imagefs.available":"15%","imagefs.inodesFree":"5%"}`},
	"evictionSoft":                     {ignored: notYet},
	"evictionSoftGracePeriod":          {ignored: notYet},
	"evictionPressureTransitionPeriod": {ignored: notYet, def: `"5m"`},
	"evictionMaxPodGracePeriod":        {ignored: notYet},
	"evictionMinimumReclaim":           {ignored: notYet},
	"mergeDefaultEvictionSettings":     {ignored: notYet, def: `false`},
	"kernelMemcgNotification":          {ignored: notYet},

	"podsPerCore": {ignored: notYet + ": set maxPods"}, "podCIDR": {ignored: "pod addresses are the CNI plugin's, ignored"},
	"hairpinMode":  {ignored: "hairpin is the CNI plugin's, ignored", def: `"promiscuous-bridge"`},
	"oomScoreAdj":  {ignored: notYet + ": set OOMScoreAdjust in the systemd unit", def: `-999`},
	"maxOpenFiles": {ignored: notYet + ": set LimitNOFILE in the systemd unit", def: `1000000`},
	"runOnce":      {ignored: notYet}, "makeIPTablesUtilChains": {ignored: notYet, def: `true`},
	"protectKernelDefaults": {ignored: notYet}, "allowedUnsafeSysctls": {ignored: notYet}, "defaultPodSysctls": {ignored: notYet},
	"shutdownGracePeriod": {ignored: notYet}, "shutdownGracePeriodCriticalPods": {ignored: notYet},
	"shutdownGracePeriodByPodPriority": {ignored: notYet}, "tracing": {ignored: notYet},
}

func nothing(*Config, *kubeletconfig.KubeletConfiguration, string) error { return nil }

func set(f func(*Config, *kubeletconfig.KubeletConfiguration)) func(*Config, *kubeletconfig.KubeletConfiguration, string) error {
	return func(c *Config, k *kubeletconfig.KubeletConfiguration, _ string) error {
		f(c, k)
		return nil
	}
}

func duration(from func(*kubeletconfig.KubeletConfiguration) time.Duration, to func(*Config) *time.Duration) func(*Config, *kubeletconfig.KubeletConfiguration, string) error {
	return set(func(c *Config, k *kubeletconfig.KubeletConfiguration) { *to(c) = from(k) })
}

// parallelPulls weighs the two fields that speak of it together.
func parallelPulls(c *Config, k *kubeletconfig.KubeletConfiguration, _ string) error {
	one := k.SerializeImagePulls != nil && *k.SerializeImagePulls
	switch most := k.MaxParallelImagePulls; {
	case one && most != nil && *most > 1:
		return fmt.Errorf("serializeImagePulls: true contradicts maxParallelImagePulls: %d; drop one of the two", *most)
	case one:
		c.MaxParallelImagePulls = 1
	case most != nil && *most < 1:
		return errors.New("maxParallelImagePulls: must be at least 1")
	case most != nil:
		c.MaxParallelImagePulls = *most
	}
	return nil
}

// besideFile reads a relative path as the kubelet does: from the folder of the file that names it.
func besideFile(path, file string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}
