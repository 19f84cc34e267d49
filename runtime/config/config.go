package config

import (
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/pflag"

	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// Defaults that flags and files override.
const (
	// DefaultRootDir holds the journal and the pods' folders.
	DefaultRootDir = "/var/lib/journalet"
	// DefaultStaticPodPath is a folder of our own and not /etc/kubernetes/manifests: on a node that a kubelet serves, or
	// has served, the manifests there are a control plane's, and starting the agent must not start them a second time.
	DefaultStaticPodPath = "/etc/journalet/pods"
	// DefaultEndpoint is containerd's socket.
	DefaultEndpoint = "unix:///run/containerd/containerd.sock"
	// DefaultPodLogDir and DefaultContainerLogDir are the kubelet's: every log shipper looks there.
	DefaultPodLogDir       = "/var/log/pods"
	DefaultContainerLogDir = "/var/log/containers"
	// DefaultMaxPods is the kubelet's.
	DefaultMaxPods = 110
	// DefaultFileCheck is the kubelet's fileCheckFrequency.
	DefaultFileCheck = 20 * time.Second
	// DefaultHTTPCheck is the kubelet's httpCheckFrequency.
	DefaultHTTPCheck = 20 * time.Second
	// DefaultRequestTimeout is the kubelet's runtimeRequestTimeout.
	DefaultRequestTimeout = 2 * time.Minute
	// DefaultPullQPS and DefaultPullBurst are the kubelet's registryPullQPS and registryBurst.
	DefaultPullQPS   = 5
	DefaultPullBurst = 10
	// DefaultParallelPulls is ours: the kubelet pulls one image at a time unless told otherwise, so that one slow
	// registry holds every pod up.
	DefaultParallelPulls = 5
	// LeastConcurrency and MostConcurrency bound the default of how many sandboxes and containers start at once: twice
	// the cores. Starts are work of runc and CNI, so more than that makes no burst faster and each pod slower.
	LeastConcurrency = 4
	// MostConcurrency see LeastConcurrency.
	MostConcurrency = 16
	// DefaultMaxRestartPeriod is the kubelet's longest container back-off.
	DefaultMaxRestartPeriod = 5 * time.Minute
	// DefaultHealthzPort and DefaultHealthzAddress are the kubelet's.
	DefaultHealthzPort    = 10248
	DefaultHealthzAddress = "127.0.0.1"
	// DefaultJournalAge and DefaultJournalBytes bound how much history is kept: a week, or 2 GiB if that is less.
	DefaultJournalAge   = 7 * 24 * time.Hour
	DefaultJournalBytes = "2Gi"
	// DefaultResolvConf is the kubelet's.
	DefaultResolvConf = "/etc/resolv.conf"
)

// Formats of the log.
const (
	LogText = "text"
	LogJSON = "json"
)

// Config is all that an agent is told. Make one with Defaults, then AddFlags, Load and Validate, in this order.
type Config struct {
	// ConfigFile is a KubeletConfiguration, ConfigDir a folder of drop-ins for it; both may be empty.
	ConfigFile, ConfigDir string

	// RootDir is the data folder; one running agent each.
	RootDir string
	// StaticPodPath is a folder of manifests, or one manifest. It need not exist.
	StaticPodPath string
	// FileCheckFrequency is how often it is reread, besides notifications.
	FileCheckFrequency time.Duration

	// StaticPodURL gives more manifests; empty: there is none. It and StaticPodURLHeader, which is sent with each request, may
	// hold secrets: print neither.
	StaticPodURL       string
	StaticPodURLHeader map[string][]string
	// HTTPCheckFrequency is the pause between two requests.
	HTTPCheckFrequency time.Duration

	// RuntimeClassPath is a file or folder of runtime classes that pods may name; empty: there are none.
	RuntimeClassPath string

	// ContainerRuntimeEndpoint is unix://<path>, or sim://<anything> for the simulated runtime.
	ContainerRuntimeEndpoint string
	// ImageServiceEndpoint is empty or the same.
	ImageServiceEndpoint string
	// RuntimeRequestTimeout bounds a call on the runtime other than a pull.
	RuntimeRequestTimeout time.Duration
	// CgroupsPerQOS gives every pod a cgroup of its own below CgroupRoot; otherwise those get one that have resources as a whole. With the
	// simulated runtime none has.
	CgroupsPerQOS bool
	// CgroupRoot is the cgroup above the pods', in the form of cgroupfs; empty: the topmost one.
	CgroupRoot string
	// CgroupDriver is cgroupfs or systemd, for a runtime that does not tell.
	CgroupDriver string
	// EnforceNodeAllocatable names what is bounded: EnforcePods, or nothing with EnforceNone.
	EnforceNodeAllocatable []string
	// PodPidsLimit is how many processes a pod may have; 0 and less: no bound.
	PodPidsLimit int64
	// CRIConcurrency is how many start calls may be under way at once; 1 serializes all calls.
	CRIConcurrency int

	// RegistryPullQPS bounds how often pulls begin, per second; 0: no bound. RegistryBurst may begin at once.
	RegistryPullQPS, RegistryBurst int32
	// MaxParallelImagePulls is how many images are pulled at once, at least 1.
	MaxParallelImagePulls int32

	// HostnameOverride is the node's name; empty: the host's.
	HostnameOverride string
	// NodeIP is the node's address, or an IPv4 and an IPv6 one separated by a comma; empty: the host's.
	NodeIP     string
	NodeLabels map[string]string
	MaxPods    int32
	// SystemReserved and KubeReserved are withheld from pods: cpu, memory, ephemeral-storage.
	SystemReserved, KubeReserved map[string]string

	PodLogDir, ContainerLogDir string
	// ResolvConf is the host's resolver file; empty: pods with DNS policy Default get no resolver.
	ResolvConf     string
	ClusterDNS     []string
	ClusterDomain  string
	SeccompDefault bool
	// SandboxSeccompProfile is what pause processes get: SandboxSeccompMinimal or SandboxSeccompRuntimeDefault.
	SandboxSeccompProfile string
	// MaxContainerRestartPeriod is the longest container back-off, 1 s to 5 min.
	MaxContainerRestartPeriod time.Duration

	// HealthzPort is 0 to serve no health.
	HealthzPort        int32
	HealthzBindAddress string
	// Profiling serves net/http/pprof under /debug/pprof/ on the health server's port, to whoever reaches it. Off
	// unless asked for: a profile tells of the agent's inside, and taking one costs CPU.
	Profiling bool

	// JournalSync is "always" or "interval:<duration>".
	JournalSync string
	// JournalRetentionAge and JournalRetentionBytes (a quantity such as 2Gi) bound the history that is kept; 0: no bound.
	JournalRetentionAge   time.Duration
	JournalRetentionBytes string
	// BusListen is host:port for observers; empty opens no port.
	BusListen string

	// Verbosity 0 logs what matters, from 2 on also debugging.
	Verbosity int
	LogFormat string

	// AllowBesideKubelet lets the agent start where a kubelet runs on the same runtime.
	AllowBesideKubelet bool
}

// The values of --enforce-node-allocatable that are carried out.
const (
	EnforcePods = "pods"
	EnforceNone = "none"
)

// The values of --sandbox-seccomp-profile.
const (
	SandboxSeccompMinimal        = "minimal"
	SandboxSeccompRuntimeDefault = "RuntimeDefault"
)

// Defaults is what the agent runs with when it is told nothing.
func Defaults() *Config {
	return &Config{
		RootDir: DefaultRootDir, StaticPodPath: DefaultStaticPodPath, FileCheckFrequency: DefaultFileCheck, HTTPCheckFrequency: DefaultHTTPCheck,
		CgroupsPerQOS: cgroup.AllByDefault(), CgroupDriver: cgroup.Cgroupfs, EnforceNodeAllocatable: []string{EnforcePods}, PodPidsLimit: -1,
		ContainerRuntimeEndpoint: DefaultEndpoint, RuntimeRequestTimeout: DefaultRequestTimeout, CRIConcurrency: defaultConcurrency(),
		RegistryPullQPS: DefaultPullQPS, RegistryBurst: DefaultPullBurst, MaxParallelImagePulls: DefaultParallelPulls,
		MaxPods: DefaultMaxPods, PodLogDir: DefaultPodLogDir, ContainerLogDir: DefaultContainerLogDir,
		ResolvConf: DefaultResolvConf, MaxContainerRestartPeriod: DefaultMaxRestartPeriod,
		SandboxSeccompProfile: SandboxSeccompMinimal,
		HealthzPort:           DefaultHealthzPort, HealthzBindAddress: DefaultHealthzAddress,
		JournalSync: "always", JournalRetentionAge: DefaultJournalAge, JournalRetentionBytes: DefaultJournalBytes, LogFormat: LogText,
	}
}

// SimulatedPaths moves the log folders below the root directory, unless others were given: a look
// around without a runtime needs no rights on /var/log.
func (c *Config) SimulatedPaths() {
	if c.PodLogDir == DefaultPodLogDir {
		c.PodLogDir = filepath.Join(c.RootDir, "logs", "pods")
	}
	if c.ContainerLogDir == DefaultContainerLogDir {
		c.ContainerLogDir = filepath.Join(c.RootDir, "logs", "containers")
	}
}

func defaultConcurrency() int {
	return min(max(2*runtime.NumCPU(), LeastConcurrency), MostConcurrency)
}

// AddFlags adds the flags, under the kubelet's names where it has them. What c holds becomes their defaults.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ConfigFile, "config", c.ConfigFile, "KubeletConfiguration file to load; flags win over it")
	fs.StringVar(&c.ConfigDir, "config-dir", c.ConfigDir, "folder of drop-ins (*.conf) merged over --config in lexical order")
	fs.StringVar(&c.RootDir, "root-dir", c.RootDir, "data folder: journal, pods' volumes, credentials")
	fs.StringVar(&c.StaticPodPath, "static-pod-path", c.StaticPodPath, "folder of pod manifests to run, or one manifest")
	fs.StringVar(&c.StaticPodPath, "pod-manifest-path", c.StaticPodPath, "the kubelet's name for --static-pod-path")
	_ = fs.MarkHidden("pod-manifest-path")
	fs.StringVar(&c.StaticPodURL, "manifest-url", c.StaticPodURL, "http or https URL of more pod manifests to run")
	fs.Var(headerFlag{&c.StaticPodURLHeader}, "manifest-url-header", "headers sent to --manifest-url; what ps must not show belongs into --config (staticPodURLHeader)")
	fs.DurationVar(&c.HTTPCheckFrequency, "http-check-frequency", c.HTTPCheckFrequency, "pause between two requests to --manifest-url")
	fs.StringVar(&c.RuntimeClassPath, "runtime-class-path", c.RuntimeClassPath, "file or folder of RuntimeClass objects that pods may name; empty: none")
	fs.StringVar(&c.ContainerRuntimeEndpoint, "container-runtime-endpoint", c.ContainerRuntimeEndpoint, "socket of the CRI runtime, or sim:// for a simulated one")
	fs.StringVar(&c.ImageServiceEndpoint, "image-service-endpoint", c.ImageServiceEndpoint, "must be the runtime's endpoint, if given")
	fs.BoolVar(&c.CgroupsPerQOS, "cgroups-per-qos", c.CgroupsPerQOS, "give every pod a cgroup of its own, by class of service, and bound all together; else only pods with spec.resources. Default: true on cgroup v2")
	fs.StringVar(&c.CgroupRoot, "cgroup-root", c.CgroupRoot, "cgroup above the pods'; empty: the topmost one")
	fs.StringVar(&c.CgroupDriver, "cgroup-driver", c.CgroupDriver, "cgroupfs or systemd, for a runtime that does not tell which it uses")
	fs.StringSliceVar(&c.EnforceNodeAllocatable, "enforce-node-allocatable", c.EnforceNodeAllocatable, "what is bounded by a cgroup: pods, for all pods together, or none")
	fs.Int64Var(&c.PodPidsLimit, "pod-max-pids", c.PodPidsLimit, "how many processes a pod may have; -1: no bound")
	fs.IntVar(&c.CRIConcurrency, "cri-concurrency", c.CRIConcurrency, "start calls under way at once; 1 serializes all calls on the runtime")
	fs.StringVar(&c.HostnameOverride, "hostname-override", c.HostnameOverride, "name of this node instead of the host's")
	fs.StringVar(&c.NodeIP, "node-ip", c.NodeIP, "address of this node, or an IPv4 and an IPv6 one separated by a comma")
	fs.StringToStringVar(&c.NodeLabels, "node-labels", c.NodeLabels, "labels of this node, key=value separated by commas")
	fs.Int32Var(&c.MaxPods, "max-pods", c.MaxPods, "how many pods may run here")
	fs.StringToStringVar(&c.SystemReserved, "system-reserved", c.SystemReserved, "withheld from pods for the system, such as cpu=200m,memory=500Mi")
	fs.StringToStringVar(&c.KubeReserved, "kube-reserved", c.KubeReserved, "withheld from pods for agents, such as cpu=200m,memory=500Mi")
	fs.StringVar(&c.PodLogDir, "pod-log-dir", c.PodLogDir, "folder of the pods' logs")
	fs.StringVar(&c.ContainerLogDir, "container-log-dir", c.ContainerLogDir, "folder of links to the containers' logs")
	fs.StringVar(&c.ResolvConf, "resolv-conf", c.ResolvConf, "resolver file that pods of DNS policy Default get; empty: none")
	fs.StringSliceVar(&c.ClusterDNS, "cluster-dns", c.ClusterDNS, "addresses of the cluster's DNS servers")
	fs.StringVar(&c.ClusterDomain, "cluster-domain", c.ClusterDomain, "DNS domain of the cluster")
	fs.BoolVar(&c.SeccompDefault, "seccomp-default", c.SeccompDefault, "RuntimeDefault seccomp profile for containers that name none")
	fs.StringVar(&c.SandboxSeccompProfile, "sandbox-seccomp-profile", c.SandboxSeccompProfile,
		"seccomp profile of pause processes: minimal, which is stricter and faster to load, or RuntimeDefault as in the kubelet")
	fs.Int32Var(&c.HealthzPort, "healthz-port", c.HealthzPort, "port of /healthz; 0: none")
	fs.StringVar(&c.HealthzBindAddress, "healthz-bind-address", c.HealthzBindAddress, "address of /healthz")
	fs.BoolVar(&c.Profiling, "profiling", c.Profiling, "serve Go profiles on /debug/pprof/ of the --healthz-port, to whoever reaches it")
	fs.StringVar(&c.JournalSync, "journal-sync", c.JournalSync, "when the journal is forced to disk: always, or interval:<duration>")
	fs.DurationVar(&c.JournalRetentionAge, "journal-retention-age", c.JournalRetentionAge, "how old a record of the journal may get that the state does not need; 0: no bound")
	fs.StringVar(&c.JournalRetentionBytes, "journal-retention-bytes", c.JournalRetentionBytes, "how large the journal may get, such as 2Gi; 0: no bound")
	fs.StringVar(&c.BusListen, "bus-listen", c.BusListen, "host:port on which observers may connect; empty: none")
	fs.IntVarP(&c.Verbosity, "v", "v", c.Verbosity, "how much is logged: 0 what matters, 2 and more for debugging")
	fs.StringVar(&c.LogFormat, "log-format", c.LogFormat, "text or json")
	fs.BoolVar(&c.AllowBesideKubelet, "allow-beside-kubelet", c.AllowBesideKubelet, "start although a kubelet runs on the same runtime")
}

// Problem is a remark on a configuration file that keeps nothing from starting.
type Problem struct {
	File    string
	Field   string // such as logging.vmodule; may be empty
	Message string
}

// String renders the problem as "file: field: message".
func (p Problem) String() string {
	if p.Field == "" {
		return fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	return fmt.Sprintf("%s: %s: %s", p.File, p.Field, p.Message)
}
