package config

import (
	"cmp"
	"slices"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/journalet/journalet/runtime/image/credentials"
	"github.com/journalet/journalet/runtime/withhold"
)

// KubeletConfiguration returns the configuration in effect, for those who read /configz. What this agent ignores has
// its default. The headers of the manifest URL, and what may be a credential in it, are withheld.
func (c *Config) KubeletConfiguration() (any, error) {
	k, err := defaults()
	if err != nil {
		return nil, err
	}
	k.APIVersion, k.Kind = apiVersion, apiKind
	k.StaticPodPath, k.FileCheckFrequency.Duration = c.StaticPodPath, c.FileCheckFrequency
	k.StaticPodURL, k.HTTPCheckFrequency.Duration = withhold.URLs(c.StaticPodURL), c.HTTPCheckFrequency
	if len(c.StaticPodURLHeader) > 0 {
		k.StaticPodURLHeader = map[string][]string{}
		for name := range c.StaticPodURLHeader {
			k.StaticPodURLHeader[name] = []string{withhold.Mark}
		}
	}
	k.EnableServer, k.EnableDebuggingHandlers = new(c.EnableServer), new(!c.NoDebugging)
	k.EnableProfilingHandler, k.EnableDebugFlagsHandler = new(!c.NoProfiling), new(!c.NoDebugFlags)
	k.EnableSystemLogHandler = new(!c.NoSystemLogs)
	k.StreamingConnectionIdleTimeout.Duration = c.StreamIdle
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
	k.ProtectKernelDefaults = c.ProtectKernelDefaults
	k.MemorySwap.SwapBehavior = c.SwapBehavior
	k.CrashLoopBackOff.MaxContainerRestartPeriod = &metav1.Duration{Duration: c.MaxContainerRestartPeriod}
	k.Logging.Format = c.LogFormat
	c.boundsInEffect(k)
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

// Values returns the values of flags by name, and withholds those that may be secrets.
func Values(flags *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		out[f.Name] = f.Value.String()
		if slices.Contains(secretFlags, f.Name) && f.Value.String() != f.DefValue {
			out[f.Name] = withhold.Mark
		}
	})
	return out
}
