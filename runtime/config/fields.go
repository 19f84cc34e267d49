package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// Reasons for ignoring a field.
const (
	notSupported = "not supported yet, ignored"
	noCluster    = "needs a cluster (--kubeconfig), ignored"
	obsolete     = "has no effect in the kubelet either, ignored"
)

type kubeletConfig = kubeletconfig.KubeletConfiguration

// field is how one field of KubeletConfiguration is used.
type field struct {
	// ignored is the warning if the field is set to another value than its default; empty: the field is applied.
	ignored string
	// def is the API's default as JSON; empty: the zero value.
	def string
	// cluster means that the field is applied in cluster mode only, and ignored otherwise.
	cluster bool
	// flag is the flag that wins over the field; empty: none.
	flag string
	// apply applies the field. As in the API, a zero value means the default and is not applied, except behind a pointer.
	apply func(*Config, *kubeletConfig, string) error
}

// fields holds every field of KubeletConfiguration by its JSON name. A test compares it with the type, so that a field
// of a new version of the API cannot be missed. The apply functions and Validate reject contradictions and values out
// of bounds.
var fields = withCluster(map[string]field{
	"apiVersion": {apply: noop}, "kind": {apply: noop}, // checked for each file

	"staticPodPath": {flag: "static-pod-path", apply: func(c *Config, k *kubeletConfig, file string) error {
		c.StaticPodPath = resolvePath(k.StaticPodPath, file)
		return nil
	}},
	"fileCheckFrequency": {apply: duration(func(k *kubeletConfig) time.Duration { return k.FileCheckFrequency.Duration },
		func(c *Config) *time.Duration { return &c.FileCheckFrequency })},
	"staticPodURL": {flag: "manifest-url", apply: set(
		func(c *Config, k *kubeletConfig) { c.StaticPodURL = k.StaticPodURL })},
	"staticPodURLHeader": {flag: "manifest-url-header", apply: set(func(c *Config, k *kubeletConfig) {
		c.StaticPodURLHeader = k.StaticPodURLHeader
	})},
	"httpCheckFrequency": {flag: "http-check-frequency",
		apply: duration(func(k *kubeletConfig) time.Duration { return k.HTTPCheckFrequency.Duration },
			func(c *Config) *time.Duration { return &c.HTTPCheckFrequency })},
	"runtimeRequestTimeout": {apply: duration(
		func(k *kubeletConfig) time.Duration { return k.RuntimeRequestTimeout.Duration },
		func(c *Config) *time.Duration { return &c.RuntimeRequestTimeout })},
	"shutdownGracePeriod": {apply: duration(
		func(k *kubeletConfig) time.Duration { return k.ShutdownGracePeriod.Duration },
		func(c *Config) *time.Duration { return &c.Shutdown.Period })},
	"shutdownGracePeriodCriticalPods": {apply: duration(
		func(k *kubeletConfig) time.Duration { return k.ShutdownGracePeriodCriticalPods.Duration },
		func(c *Config) *time.Duration { return &c.Shutdown.CriticalPods })},
	"shutdownGracePeriodByPodPriority": {apply: set(func(c *Config, k *kubeletConfig) {
		c.Shutdown.ByPriority = nil
		for _, g := range k.ShutdownGracePeriodByPodPriority {
			c.Shutdown.ByPriority = append(c.Shutdown.ByPriority, ShutdownGroup{
				Priority: g.Priority, Seconds: g.ShutdownGracePeriodSeconds,
			})
		}
	})},
	"volumeStatsAggPeriod": {apply: duration(
		func(k *kubeletConfig) time.Duration { return k.VolumeStatsAggPeriod.Duration },
		func(c *Config) *time.Duration { return &c.VolumeStatsAggPeriod })},
	"maxPods":    {flag: "max-pods", apply: set(func(c *Config, k *kubeletConfig) { c.MaxPods = k.MaxPods })},
	"podLogsDir": {flag: "pod-log-dir", apply: set(func(c *Config, k *kubeletConfig) { c.PodLogDir = k.PodLogsDir })},
	"containerRuntimeEndpoint": {flag: "container-runtime-endpoint", apply: set(func(c *Config, k *kubeletConfig) {
		c.ContainerRuntimeEndpoint = k.ContainerRuntimeEndpoint
	})},
	"imageServiceEndpoint": {flag: "image-service-endpoint", apply: set(func(c *Config, k *kubeletConfig) {
		c.ImageServiceEndpoint = k.ImageServiceEndpoint
	})},
	"registryPullQPS":       {apply: set(func(c *Config, k *kubeletConfig) { c.RegistryPullQPS = *k.RegistryPullQPS })},
	"registryBurst":         {apply: set(func(c *Config, k *kubeletConfig) { c.RegistryBurst = k.RegistryBurst })},
	"maxParallelImagePulls": {apply: parallelPulls},
	"serializeImagePulls":   {apply: parallelPulls},
	"resolvConf": {flag: "resolv-conf", apply: func(c *Config, k *kubeletConfig, file string) error {
		c.ResolvConf = resolvePath(*k.ResolverConfig, file)
		return nil
	}},
	"clusterDNS": {flag: "cluster-dns",
		apply: set(func(c *Config, k *kubeletConfig) { c.ClusterDNS = k.ClusterDNS })},
	"clusterDomain": {flag: "cluster-domain",
		apply: set(func(c *Config, k *kubeletConfig) { c.ClusterDomain = k.ClusterDomain })},
	"healthzPort": {flag: "healthz-port",
		apply: set(func(c *Config, k *kubeletConfig) { c.HealthzPort = *k.HealthzPort })},
	"healthzBindAddress": {flag: "healthz-bind-address",
		apply: set(func(c *Config, k *kubeletConfig) { c.HealthzBindAddress = k.HealthzBindAddress })},
	"seccompDefault": {flag: "seccomp-default",
		apply: set(func(c *Config, k *kubeletConfig) { c.SeccompDefault = *k.SeccompDefault })},
	"systemReserved": {flag: "system-reserved",
		apply: set(func(c *Config, k *kubeletConfig) { c.SystemReserved = k.SystemReserved })},
	"kubeReserved": {flag: "kube-reserved",
		apply: set(func(c *Config, k *kubeletConfig) { c.KubeReserved = k.KubeReserved })},
	"crashLoopBackOff": {apply: func(c *Config, k *kubeletConfig, _ string) error {
		if p := k.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
			c.MaxContainerRestartPeriod = p.Duration
		}
		return nil
	}},
	"cgroupRoot": {flag: "cgroup-root", apply: set(func(c *Config, k *kubeletConfig) { c.CgroupRoot = k.CgroupRoot })},
	"cgroupsPerQOS": {flag: "cgroups-per-qos",
		apply: set(func(c *Config, k *kubeletConfig) { c.CgroupsPerQOS = *k.CgroupsPerQOS })},
	"cgroupDriver": {flag: "cgroup-driver",
		apply: set(func(c *Config, k *kubeletConfig) { c.CgroupDriver = k.CgroupDriver })},
	"enforceNodeAllocatable": {flag: "enforce-node-allocatable", apply: set(func(c *Config, k *kubeletConfig) {
		c.EnforceNodeAllocatable = k.EnforceNodeAllocatable
	})},
	"podPidsLimit": {flag: "pod-max-pids", apply: set(
		func(c *Config, k *kubeletConfig) { c.PodPidsLimit = *k.PodPidsLimit })},
	"logging": {apply: noop}, // see applyLogging: each part has a flag
	"tracing": {apply: noop}, // see applyTracing

	"syncFrequency": {ignored: "pods are not synced periodically, ignored", def: `"1m"`},

	"enableServer": {flag: "enable-server",
		apply: set(func(c *Config, k *kubeletConfig) { c.EnableServer = *k.EnableServer })},
	"enableDebuggingHandlers": {apply: set(
		func(c *Config, k *kubeletConfig) { c.NoDebugging = !*k.EnableDebuggingHandlers })},
	"featureGates":                {apply: noop}, // see applyGates
	"showHiddenMetricsForVersion": {ignored: "no metric is hidden, ignored"},

	"enableContentionProfiling": {ignored: notSupported},
	"enableProfilingHandler": {def: `true`, apply: set(
		func(c *Config, k *kubeletConfig) { c.NoProfiling = !*k.EnableProfilingHandler })},
	"enableDebugFlagsHandler": {def: `true`, apply: set(
		func(c *Config, k *kubeletConfig) { c.NoDebugFlags = !*k.EnableDebugFlagsHandler })},
	"enableSystemLogHandler": {def: `true`, apply: set(
		func(c *Config, k *kubeletConfig) { c.NoSystemLogs = !*k.EnableSystemLogHandler })},
	"enableSystemLogQuery": {def: `false`, apply: set(
		func(c *Config, k *kubeletConfig) { c.SystemLogQuery = *k.EnableSystemLogQuery })},
	"streamingConnectionIdleTimeout": {def: `"4h"`, apply: duration(
		func(k *kubeletConfig) time.Duration { return k.StreamingConnectionIdleTimeout.Duration },
		func(c *Config) *time.Duration { return &c.StreamIdle })},
	"configMapAndSecretChangeDetectionStrategy": {def: `"Watch"`,
		ignored: "each object that a pod refers to is watched, ignored"},
	"enableControllerAttachDetach": {ignored: "the control plane attaches volumes, ignored", def: `true`},
	"iptablesMasqueradeBit":        {ignored: obsolete, def: `14`},
	"iptablesDropBit":              {ignored: obsolete, def: `15`},

	"imagePullCredentialsVerificationPolicy": {apply: set(func(c *Config, k *kubeletConfig) {
		c.ImagePullVerification = string(k.ImagePullCredentialsVerificationPolicy)
	})},
	"preloadedImagesVerificationAllowlist": {apply: set(func(c *Config, k *kubeletConfig) {
		c.PreloadedImages = k.PreloadedImagesVerificationAllowlist
	})},
	"imageMinimumGCAge": {flag: "minimum-image-ttl-duration",
		apply: duration(func(k *kubeletConfig) time.Duration { return k.ImageMinimumGCAge.Duration },
			func(c *Config) *time.Duration { return &c.ImageGC.MinAge })},
	"imageMaximumGCAge": {apply: duration(func(k *kubeletConfig) time.Duration { return k.ImageMaximumGCAge.Duration },
		func(c *Config) *time.Duration { return &c.ImageGC.MaxAge })},
	"imageGCHighThresholdPercent": {flag: "image-gc-high-threshold", apply: set(func(c *Config, k *kubeletConfig) {
		c.ImageGC.HighPercent = *k.ImageGCHighThresholdPercent
	})},
	"imageGCLowThresholdPercent": {flag: "image-gc-low-threshold", apply: set(func(c *Config, k *kubeletConfig) {
		c.ImageGC.LowPercent = *k.ImageGCLowThresholdPercent
	})},
	"containerLogMaxSize": {flag: "container-log-max-size", apply: set(func(c *Config, k *kubeletConfig) {
		c.ContainerLogs.MaxSize = k.ContainerLogMaxSize
	})},
	"containerLogMaxFiles": {flag: "container-log-max-files", apply: set(func(c *Config, k *kubeletConfig) {
		c.ContainerLogs.MaxFiles = *k.ContainerLogMaxFiles
	})},
	"containerLogMaxWorkers": {apply: set(func(c *Config, k *kubeletConfig) {
		c.ContainerLogs.MaxWorkers = *k.ContainerLogMaxWorkers
	})},
	"containerLogMonitorInterval": {apply: set(func(c *Config, k *kubeletConfig) {
		c.ContainerLogs.MonitorInterval = k.ContainerLogMonitorInterval.Duration
	})},
	"volumePluginDir": {ignored: notSupported,
		def: `"/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"`},
	"localStorageCapacityIsolation": {def: `true`, apply: set(
		func(c *Config, k *kubeletConfig) { c.LocalStorage = *k.LocalStorageCapacityIsolation })},

	"kubeletCgroups": {ignored: notSupported}, "systemCgroups": {ignored: notSupported},
	"systemReservedCgroup": {apply: set(
		func(c *Config, k *kubeletConfig) { c.SystemReservedCgroup = k.SystemReservedCgroup })},
	"kubeReservedCgroup": {apply: set(
		func(c *Config, k *kubeletConfig) { c.KubeReservedCgroup = k.KubeReservedCgroup })},
	"reservedSystemCPUs": {flag: "reserved-cpus", apply: set(
		func(c *Config, k *kubeletConfig) { c.ReservedSystemCPUs = k.ReservedSystemCPUs })},
	"qosReserved": {ignored: notSupported}, "singleProcessOOMKill": {def: `false`, apply: set(
		func(c *Config, k *kubeletConfig) { c.SingleProcessOOMKill = *k.SingleProcessOOMKill })},
	"cpuCFSQuota": {def: `true`, apply: set(func(c *Config, k *kubeletConfig) { c.CPUQuota = *k.CPUCFSQuota })},
	"cpuCFSQuotaPeriod": {def: `"100ms"`, apply: set(
		func(c *Config, k *kubeletConfig) { c.CPUQuotaPeriod = k.CPUCFSQuotaPeriod.Duration })},
	"cpuManagerPolicy": {def: `"none"`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Managers.CPUPolicy = k.CPUManagerPolicy })},
	"cpuManagerPolicyOptions": {apply: set(
		func(c *Config, k *kubeletConfig) { c.Managers.CPUOptions = k.CPUManagerPolicyOptions })},
	"cpuManagerReconcilePeriod": {ignored: "containers are moved as soon as their CPUs change, ignored", def: `"10s"`},
	"memoryManagerPolicy": {def: `"None"`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Managers.MemoryPolicy = k.MemoryManagerPolicy })},
	"topologyManagerPolicy": {def: `"none"`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Managers.TopologyPolicy = k.TopologyManagerPolicy })},
	"topologyManagerScope": {def: `"container"`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Managers.TopologyScope = k.TopologyManagerScope })},
	"topologyManagerPolicyOptions": {apply: set(
		func(c *Config, k *kubeletConfig) { c.Managers.TopologyOptions = k.TopologyManagerPolicyOptions })},
	"reservedMemory": {apply: set(
		func(c *Config, k *kubeletConfig) { c.Managers.ReservedMemory = k.ReservedMemory })},
	"memoryThrottlingFactor": {apply: func(c *Config, k *kubeletConfig, _ string) error {
		if c.MemoryThrottlingFactor = *k.MemoryThrottlingFactor; c.MemoryThrottlingFactor == 0 {
			return errors.New("memoryThrottlingFactor: found 0, want more; remove it to throttle nothing")
		}
		return nil
	}},
	"memoryReservationPolicy": {def: `"None"`, apply: set(
		func(c *Config, k *kubeletConfig) { c.MemoryReservationPolicy = string(k.MemoryReservationPolicy) })},
	"memorySwap": {apply: set(func(c *Config, k *kubeletConfig) {
		c.SwapBehavior = cmp.Or(k.MemorySwap.SwapBehavior, SwapNone)
	})},
	"failSwapOn":   {ignored: "swap never prevents a start, `journalet check` reports it, ignored", def: `true`},
	"failCgroupV1": {ignored: "cgroup v1 is supported as long as the runtime supports it, ignored", def: `true`},
	"userNamespaces": {apply: set(func(c *Config, k *kubeletConfig) {
		if n := k.UserNamespaces.IDsPerPod; n != nil && *n != 0 {
			c.UserNamespaceIDs = *n
		}
	})},

	"evictionHard": {apply: set(
		func(c *Config, k *kubeletConfig) { c.Eviction.Hard = k.EvictionHard })},
	"mergeDefaultEvictionSettings": {apply: set(
		func(c *Config, k *kubeletConfig) { c.Eviction.MergeDefaults = *k.MergeDefaultEvictionSettings })},
	"evictionSoft": {apply: set(func(c *Config, k *kubeletConfig) { c.Eviction.Soft = k.EvictionSoft })},
	"evictionSoftGracePeriod": {apply: set(
		func(c *Config, k *kubeletConfig) { c.Eviction.SoftGrace = k.EvictionSoftGracePeriod })},
	"evictionPressureTransitionPeriod": {apply: duration(
		func(k *kubeletConfig) time.Duration { return k.EvictionPressureTransitionPeriod.Duration },
		func(c *Config) *time.Duration { return &c.Eviction.Transition })},
	"evictionMaxPodGracePeriod": {apply: set(
		func(c *Config, k *kubeletConfig) { c.Eviction.MaxPodGraceSeconds = k.EvictionMaxPodGracePeriod })},
	"evictionMinimumReclaim": {apply: set(
		func(c *Config, k *kubeletConfig) { c.Eviction.MinReclaim = k.EvictionMinimumReclaim })},
	"kernelMemcgNotification": {ignored: "memory is measured every 1 to 5 s, ignored"},

	"podsPerCore": {apply: set(func(c *Config, k *kubeletConfig) { c.PodsPerCore = k.PodsPerCore })},
	"podCIDR":     {apply: set(func(c *Config, k *kubeletConfig) { c.PodCIDR = k.PodCIDR })},
	"hairpinMode": {ignored: "set hairpin mode in the CNI configuration, ignored", def: `"promiscuous-bridge"`},
	"oomScoreAdj": {apply: set(
		func(c *Config, k *kubeletConfig) { c.OOMScoreAdj = *k.OOMScoreAdj })},
	"maxOpenFiles": {ignored: notSupported + ": set LimitNOFILE in the systemd unit", def: `1000000`},
	"runOnce":      {ignored: "the kubelet refuses it by now; pass --once to journalet run"},
	"protectKernelDefaults": {flag: "protect-kernel-defaults",
		apply: set(func(c *Config, k *kubeletConfig) { c.ProtectKernelDefaults = k.ProtectKernelDefaults })},
	"allowedUnsafeSysctls": {apply: set(
		func(c *Config, k *kubeletConfig) { c.AllowedUnsafeSysctls = k.AllowedUnsafeSysctls })},
	"defaultPodSysctls": {ignored: notSupported},
})

func noop(*Config, *kubeletConfig, string) error { return nil }

func set(f func(*Config, *kubeletConfig)) func(*Config, *kubeletConfig, string) error {
	return func(c *Config, k *kubeletConfig, _ string) error {
		f(c, k)
		return nil
	}
}

func duration(from func(*kubeletConfig) time.Duration, to func(*Config) *time.Duration) func(*Config,
	*kubeletConfig, string) error {
	return set(func(c *Config, k *kubeletConfig) { *to(c) = from(k) })
}

// parallelPulls applies serializeImagePulls and maxParallelImagePulls together.
func parallelPulls(c *Config, k *kubeletConfig, _ string) error {
	one := k.SerializeImagePulls != nil && *k.SerializeImagePulls
	switch most := k.MaxParallelImagePulls; {
	case one && most != nil && *most > 1:
		return fmt.Errorf("serializeImagePulls: true contradicts maxParallelImagePulls: %d; remove one of the two", *most)
	case one:
		c.MaxParallelImagePulls = 1
	case most != nil && *most < 1:
		return errors.New("maxParallelImagePulls: must be at least 1")
	case most != nil:
		c.MaxParallelImagePulls = *most
	}
	return nil
}

// resolvePath resolves a relative path as the kubelet does: against the directory of the configuration file.
func resolvePath(path, file string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}
