package config

import (
	"cmp"
	"slices"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/journalet/journalet/runtime/image/credentials"
	"github.com/journalet/journalet/runtime/redact"
)

// KubeletConfiguration returns the configuration in effect, for readers of /configz. What this agent ignores has its
// default. The headers of the manifest URL, and what may be a credential in it, are withheld.
func (c *Config) KubeletConfiguration() (any, error) {
	k, err := defaults()
	if err != nil {
		return nil, err
	}
	k.APIVersion, k.Kind = apiVersion, apiKind
	k.StaticPodPath, k.FileCheckFrequency.Duration = c.StaticPodPath, c.FileCheckFrequency
	k.StaticPodURL, k.HTTPCheckFrequency.Duration = redact.URLs(c.StaticPodURL), c.HTTPCheckFrequency
	if len(c.StaticPodURLHeader) > 0 {
		k.StaticPodURLHeader = map[string][]string{}
		for name := range c.StaticPodURLHeader {
			k.StaticPodURLHeader[name] = []string{redact.Mark}
		}
	}
	k.EnableServer, k.EnableDebuggingHandlers = new(c.EnableServer), new(!c.NoDebugging)
	k.EnableProfilingHandler, k.EnableDebugFlagsHandler = new(!c.NoProfiling), new(!c.NoDebugFlags)
	k.EnableSystemLogHandler, k.EnableSystemLogQuery = new(!c.NoSystemLogs), new(c.SystemLogQuery)
	k.StreamingConnectionIdleTimeout.Duration = c.StreamIdle
	k.FeatureGates = c.gates()
	k.HealthzPort, k.HealthzBindAddress = new(c.HealthzPort), c.HealthzBindAddress
	k.ClusterDomain, k.ClusterDNS, k.ResolverConfig = c.ClusterDomain, c.ClusterDNS, new(c.ResolvConf)
	k.ContainerRuntimeEndpoint, k.ImageServiceEndpoint = c.ContainerRuntimeEndpoint, c.ImageServiceEndpoint
	k.RuntimeRequestTimeout.Duration, k.PodLogsDir = c.RuntimeRequestTimeout, c.PodLogDir
	k.RegistryPullQPS, k.RegistryBurst = new(c.RegistryPullQPS), c.RegistryBurst
	k.MaxParallelImagePulls, k.SerializeImagePulls = new(c.MaxParallelImagePulls), new(c.MaxParallelImagePulls == 1)
	k.ImagePullCredentialsVerificationPolicy = kubeletconfig.ImagePullCredentialsVerificationPolicy(
		cmp.Or(c.ImagePullVerification, credentials.NeverVerifyPreloadedImages))
	k.PreloadedImagesVerificationAllowlist = c.PreloadedImages
	k.MaxPods, k.PodPidsLimit, k.SeccompDefault = c.MaxPods, new(c.PodPidsLimit), new(c.SeccompDefault)
	k.CgroupRoot, k.CgroupsPerQOS, k.CgroupDriver = c.CgroupRoot, new(c.CgroupsPerQOS), c.CgroupDriver
	k.EnforceNodeAllocatable = c.EnforceNodeAllocatable
	k.SystemReserved, k.KubeReserved = c.SystemReserved, c.KubeReserved
	k.SystemReservedCgroup, k.KubeReservedCgroup = c.SystemReservedCgroup, c.KubeReservedCgroup
	k.OOMScoreAdj = new(c.OOMScoreAdj)
	k.CPUCFSQuota, k.CPUCFSQuotaPeriod = new(c.CPUQuota), &metav1.Duration{Duration: c.CPUQuotaPeriod}
	k.LocalStorageCapacityIsolation = new(c.LocalStorage)
	k.SingleProcessOOMKill, k.PodsPerCore = new(c.SingleProcessOOMKill), c.PodsPerCore
	k.ReservedSystemCPUs, k.EvictionHard = c.ReservedSystemCPUs, c.Eviction.Thresholds()
	c.Managers.inEffect(k)
	k.MergeDefaultEvictionSettings = new(c.Eviction.MergeDefaults)
	k.EvictionSoft, k.EvictionSoftGracePeriod = c.Eviction.Soft, c.Eviction.SoftGrace
	k.EvictionMinimumReclaim, k.EvictionMaxPodGracePeriod = c.Eviction.MinReclaim, c.Eviction.MaxPodGraceSeconds
	k.EvictionPressureTransitionPeriod.Duration = c.Eviction.Transition
	k.UserNamespaces = &kubeletconfig.UserNamespaces{IDsPerPod: new(c.UserNamespaceIDs)}
	k.PodCIDR = c.PodCIDR
	k.VolumeStatsAggPeriod.Duration = c.VolumeStatsAggPeriod
	k.ProtectKernelDefaults, k.AllowedUnsafeSysctls = c.ProtectKernelDefaults, c.AllowedUnsafeSysctls
	k.MemorySwap.SwapBehavior = c.SwapBehavior
	if c.MemoryThrottlingFactor != 0 {
		k.MemoryThrottlingFactor = new(c.MemoryThrottlingFactor)
	}
	if c.MemoryReservationPolicy != "" {
		k.MemoryReservationPolicy = kubeletconfig.MemoryReservationPolicy(c.MemoryReservationPolicy)
	}
	k.CrashLoopBackOff.MaxContainerRestartPeriod = &metav1.Duration{Duration: c.MaxContainerRestartPeriod}
	k.Logging.Format, k.Logging.Verbosity = c.LogFormat, logsapi.VerbosityLevel(max(0, c.Verbosity))
	if c.TracingSamplingRatePerMillion > 0 {
		k.Tracing = &tracingapi.TracingConfiguration{
			Endpoint: new(c.TracingEndpoint), SamplingRatePerMillion: new(c.TracingSamplingRatePerMillion),
		}
	}
	c.boundsInEffect(k)
	if c.InCluster() {
		c.clusterInEffect(k)
	}
	return k, nil
}

// boundsInEffect sets what bounds images, logs and shutdowns.
func (c *Config) boundsInEffect(k *kubeletConfig) {
	g := c.ImageGC
	k.ImageGCHighThresholdPercent, k.ImageGCLowThresholdPercent = new(g.HighPercent), new(g.LowPercent)
	k.ImageMinimumGCAge.Duration, k.ImageMaximumGCAge.Duration = g.MinAge, g.MaxAge
	l := c.ContainerLogs
	k.ContainerLogMaxSize, k.ContainerLogMaxFiles = l.MaxSize, new(l.MaxFiles)
	k.ContainerLogMaxWorkers = new(l.MaxWorkers)
	k.ContainerLogMonitorInterval = &metav1.Duration{Duration: l.MonitorInterval}
	k.ShutdownGracePeriod.Duration = c.Shutdown.Period
	k.ShutdownGracePeriodCriticalPods.Duration = c.Shutdown.CriticalPods
	for _, s := range c.Shutdown.ByPriority {
		k.ShutdownGracePeriodByPodPriority = append(k.ShutdownGracePeriodByPodPriority,
			kubeletconfig.ShutdownGracePeriodByPodPriority{
				Priority: s.Priority, ShutdownGracePeriodSeconds: s.Seconds,
			})
	}
}

// clusterInEffect sets what counts in a cluster only. What is read by nobody has its default elsewhere.
func (c *Config) clusterInEffect(k *kubeletConfig) {
	l, s := &c.Cluster, &c.Server
	k.MakeIPTablesUtilChains = new(!l.NoIPTablesChains)
	k.Address, k.Port, k.ReadOnlyPort = s.Address, s.Port, s.ReadOnlyPort
	k.TLSCertFile, k.TLSPrivateKeyFile = s.TLSCertFile, s.TLSPrivateKeyFile
	k.TLSCipherSuites, k.TLSMinVersion, k.TLSCurvePreferences = s.TLSCipherSuites, s.TLSMinVersion, s.TLSCurvePreferences
	k.Authentication.Anonymous.Enabled = new(s.Anonymous)
	k.Authentication.Webhook.Enabled, k.Authentication.Webhook.CacheTTL.Duration = new(s.TokenReview), s.ReviewTTL
	k.Authentication.X509.ClientCAFile = s.ClientCAFile
	k.Authorization.Mode = kubeletconfig.KubeletAuthorizationMode(s.Authorization)
	k.Authorization.Webhook.CacheAuthorizedTTL.Duration = s.AuthorizedTTL
	k.Authorization.Webhook.CacheUnauthorizedTTL.Duration = s.UnauthorizedTTL
	k.RotateCertificates, k.ServerTLSBootstrap = l.RotateCertificates, l.ServerTLSBootstrap
	k.KubeAPIQPS, k.KubeAPIBurst, k.ContentType = new(l.QPS), l.Burst, l.ContentType
	k.EventRecordQPS, k.EventBurst = new(l.EventQPS), l.EventBurst
	k.RegisterNode, k.RegisterWithTaints, k.ProviderID = new(l.RegisterNode), l.RegisterWithTaints, l.ProviderID
	k.NodeStatusUpdateFrequency.Duration, k.NodeStatusReportFrequency.Duration = l.UpdateEvery(), l.ReportEvery()
	k.NodeLeaseDurationSeconds, k.NodeStatusMaxImages = l.LeaseSeconds, new(l.MaxImages)
}

// defaults returns the API's defaults of the fields that have one here.
func defaults() (*kubeletConfig, error) {
	m := merged{values: map[string]any{}}
	for name, f := range fields {
		if f.def == "" {
			continue
		}
		one, err := decodeField(f.def, name, nil)
		if err != nil {
			return nil, err
		}
		m.values[name] = fieldOf(one, name).Interface()
	}
	return m.all()
}

// secretFlags have values that nobody is to read elsewhere.
var secretFlags = []string{"manifest-url", "manifest-url-header"}

// Values returns the values of flags by name, and withholds values that may be secrets.
func Values(flags *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		out[f.Name] = f.Value.String()
		if slices.Contains(secretFlags, f.Name) && f.Value.String() != f.DefValue {
			out[f.Name] = redact.Mark
		}
	})
	return out
}
