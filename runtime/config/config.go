package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/pflag"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/own"
)

// Defaults that flags and files override.
const (
	// DefaultRootDir holds the journal and the pods' directories.
	DefaultRootDir = "/var/lib/journalet"
	// DefaultStaticPodPath is not /etc/kubernetes/manifests: on a node that has or had a kubelet, the manifests there are
	// a control plane's, and the agent must not start them a second time.
	DefaultStaticPodPath = "/etc/journalet/pods"
	// DefaultEndpoint is containerd's socket.
	DefaultEndpoint = "unix:///run/containerd/containerd.sock"
	// DefaultPodLogDir and DefaultContainerLogDir are the kubelet's: log shippers expect them.
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
	// DefaultVolumeStatsAggPeriod is the kubelet's volumeStatsAggPeriod.
	DefaultVolumeStatsAggPeriod = time.Minute
	// DefaultPullQPS and DefaultPullBurst are the kubelet's registryPullQPS and registryBurst.
	DefaultPullQPS   = 5
	DefaultPullBurst = 10
	// DefaultParallelPulls differs from the kubelet, which by default pulls one image at a time, so that one slow
	// registry delays every pod.
	DefaultParallelPulls = 5
	// MinConcurrency and MaxConcurrency bound the default number of sandboxes and containers that start at once, twice
	// the cores. Starts are work of runc and CNI: more of them make no burst faster and each pod slower.
	MinConcurrency = 4
	// MaxConcurrency is the upper bound, see MinConcurrency.
	MaxConcurrency = 16
	// DefaultMaxRestartPeriod is the kubelet's longest container back-off.
	DefaultMaxRestartPeriod = 5 * time.Minute
	// DefaultCPUQuotaPeriod is the kubelet's cpuCFSQuotaPeriod.
	DefaultCPUQuotaPeriod = resources.PeriodMicros * time.Microsecond
	// DefaultHealthzPort and DefaultHealthzAddress are the kubelet's.
	DefaultHealthzPort    = 10248
	DefaultHealthzAddress = "127.0.0.1"
	// DefaultJournalAge and DefaultJournalBytes bound the journal: a week, or 2 GiB if that is less.
	DefaultJournalAge   = 7 * 24 * time.Hour
	DefaultJournalBytes = "2Gi"
	// DefaultResolvConf is the kubelet's.
	DefaultResolvConf = "/etc/resolv.conf"
	// DefaultStreamIdle is the kubelet's streamingConnectionIdleTimeout.
	DefaultStreamIdle = 4 * time.Hour
)

// Formats of the log.
const (
	LogText = "text"
	LogJSON = "json"
)

// Values of memorySwap.swapBehavior: no container swaps; Burstable ones may, each by its share of the node's memory.
const (
	SwapNone    = "NoSwap"
	SwapLimited = "LimitedSwap"
)

// Values of memoryReservationPolicy: memory may be reclaimed from every pod; the requested memory is reclaimed from no
// Guaranteed pod, and from others only if there is nothing else. KEP-2570.
const (
	ReserveNone   = "None"
	ReserveTiered = "TieredReservation"
)

// Config is the agent's configuration. Use Defaults, then AddFlags, Load and Validate, in this order.
type Config struct {
	// ConfigFile is a KubeletConfiguration, ConfigDir a directory of drop-ins for it; both may be empty.
	ConfigFile, ConfigDir string

	// RootDir is the data directory of one running agent.
	RootDir string
	// StaticPodPath is a directory of manifests, or one manifest. It need not exist.
	StaticPodPath string
	// FileCheckFrequency is the interval between two reads of it, besides those after notifications.
	FileCheckFrequency time.Duration

	// StaticPodURL is the URL of more manifests; empty: none. StaticPodURLHeader is sent with each request. Both may hold
	// secrets: print neither.
	StaticPodURL       string
	StaticPodURLHeader map[string][]string
	// HTTPCheckFrequency is the interval between two requests.
	HTTPCheckFrequency time.Duration

	// RuntimeClassPath is a file or directory of RuntimeClass objects for pods; empty: none.
	RuntimeClassPath string

	// ObjectsPath is a file or directory of objects that pods refer to, besides StaticPodPath; empty: none.
	ObjectsPath string
	// OfflineSecrets is a directory for the key of the Secrets that are kept for a start without the API server, or
	// systemd-creds; empty: keeps none.
	OfflineSecrets string
	// ServiceAccountTokenFiles are paths of files with the token of a service account, by NAMESPACE/NAME.
	ServiceAccountTokenFiles map[string]string

	// ContainerRuntimeEndpoint is unix://<path>, or sim:// for the simulated runtime; sim://?pull=3s has each pull take
	// so long.
	ContainerRuntimeEndpoint string
	// ImageServiceEndpoint is empty or the same.
	ImageServiceEndpoint string
	// RuntimeRequestTimeout bounds a call to the runtime other than a pull.
	RuntimeRequestTimeout time.Duration
	// CgroupsPerQOS gives every pod a cgroup of its own below CgroupRoot; else only pods with spec.resources get one. The
	// simulated runtime has no cgroups.
	CgroupsPerQOS bool
	// CgroupRoot is the parent of the pods' cgroups, in the form of cgroupfs; empty: the root cgroup.
	CgroupRoot string
	// CgroupDriver is cgroupfs or systemd, for a runtime that does not report its driver.
	CgroupDriver string
	// SystemReservedCgroup and KubeReservedCgroup are cgroups of daemons, which EnforceNodeAllocatable bounds.
	SystemReservedCgroup, KubeReservedCgroup string
	// OOMScoreAdj is the agent's own oom_score_adj, -1000 to 1000.
	OOMScoreAdj int32
	// EnforceNodeAllocatable names what cgroups bound: EnforcePods and the other constants of the kind.
	EnforceNodeAllocatable []string
	// PodPidsLimit bounds the processes of a pod; 0 and less: no bound.
	PodPidsLimit int64
	// LocalStorage counts and limits ephemeral storage; else the node offers none, and no pod is evicted for a limit.
	LocalStorage bool
	// CPUQuota enforces limits of CPU, within each CPUQuotaPeriod.
	CPUQuota       bool
	CPUQuotaPeriod time.Duration
	// SingleProcessOOMKill has the kernel kill one process that lacks memory, not its container (cgroup v2).
	SingleProcessOOMKill bool
	// MemoryThrottlingFactor is the part of the memory beyond its request, above 0 and at most 1, above which a
	// container is throttled on cgroup v2; 0: no throttling.
	MemoryThrottlingFactor float64
	// MemoryReservationPolicy is ReserveNone, the default, or ReserveTiered.
	MemoryReservationPolicy string
	// SwapBehavior is SwapNone, the default, or SwapLimited.
	SwapBehavior string
	// UserNamespaceIDs is how many ids a pod with a user namespace of its own gets.
	UserNamespaceIDs int64
	// AllowedUnsafeSysctls are sysctls that pods may set besides the safe ones, by name or as patterns that end in *.
	AllowedUnsafeSysctls []string
	// ProtectKernelDefaults refuses to start while a kernel setting differs from what pods rely on.
	ProtectKernelDefaults bool
	// CRIConcurrency bounds the start calls under way; 1 serializes all calls.
	CRIConcurrency int

	// RegistryPullQPS bounds the pulls that start per second, 0: no bound; RegistryBurst bounds the pulls that start at
	// once.
	RegistryPullQPS, RegistryBurst int32
	// MaxParallelImagePulls bounds the pulls under way, at least 1.
	MaxParallelImagePulls int32
	// ImageGC bounds what images take of their file system.
	ImageGC ImageGC
	// Shutdown is how pods end when the machine shuts down.
	Shutdown Shutdown
	// ContainerLogs bounds the logs of containers.
	ContainerLogs ContainerLogs

	// ImageCredentialProviderConfig is a file or directory with the configuration of credential provider plugins,
	// ImageCredentialProviderBinDir the directory with their programs; both empty: no plugins.
	ImageCredentialProviderConfig, ImageCredentialProviderBinDir string
	// ImagePullVerification says which images on the node only the pods may have that have their credentials
	// (imagePullCredentialsVerificationPolicy); empty: images that this agent has pulled.
	ImagePullVerification string
	// PreloadedImages are images that every pod may have, for one of these policies.
	PreloadedImages []string

	// HostnameOverride is the node's name; empty: the host's.
	HostnameOverride string
	// NodeIP is the node's address, or an IPv4 and an IPv6 one separated by a comma; 0.0.0.0 or ::: the host's, preferably
	// of that family; empty: the host's, preferably of IPv4.
	NodeIP     string
	NodeLabels map[string]string
	// MaxPods bounds the pods, and PodsPerCore those for each CPU; a PodsPerCore of 0 is no bound.
	MaxPods, PodsPerCore int32
	// PodCIDR is what the runtime is given as the addresses of pods while the Node has none: a CIDR, or one of each family
	// separated by a comma; empty: nothing.
	PodCIDR string
	// SystemReserved and KubeReserved are not allocatable to pods: cpu, memory, ephemeral-storage, pid.
	// ReservedSystemCPUs is a list of CPUs whose number replaces the cpu of both; empty: none.
	SystemReserved, KubeReserved map[string]string
	ReservedSystemCPUs           string
	// Eviction are thresholds that are not allocatable either.
	Eviction Eviction
	// Managers give containers exclusive CPUs and memory.
	Managers Managers

	PodLogDir, ContainerLogDir string
	dead                       deadContainers
	// ResolvConf is the host's resolver file; empty: pods with DNS policy Default get no resolver.
	ResolvConf     string
	ClusterDNS     []string
	ClusterDomain  string
	SeccompDefault bool
	// SandboxSeccompProfile is the profile of pause processes: SandboxSeccompMinimal or SandboxSeccompRuntimeDefault.
	SandboxSeccompProfile string
	// VolumeStatsAggPeriod is how long figures of volumes count; negative: volumes are not measured.
	VolumeStatsAggPeriod time.Duration
	// MaxContainerRestartPeriod is the longest container back-off, 1 s to 5 min.
	MaxContainerRestartPeriod time.Duration

	// EnableServer opens the socket of the kubelet server's paths. NoDebugging leaves out sessions, logs and profiles;
	// the others each one of its pages.
	EnableServer, NoDebugging               bool
	NoProfiling, NoDebugFlags, NoSystemLogs bool
	// SystemLogQuery serves queries of system logs.
	SystemLogQuery bool
	// NoPodsAPI leaves out the socket where agents of the node read its pods.
	NoPodsAPI bool
	// StreamIdle is how long a session may send and receive nothing.
	StreamIdle time.Duration
	// FlagValues are the values of the flags by name, without secrets, for readers of /flagz.
	FlagValues map[string]string
	// APISocket is the socket's path; empty: kubelet.sock in RootDir. APISocketGroup is a group whose members may connect,
	// by name or number; empty: the agent's user alone.
	APISocket, APISocketGroup string

	// Cluster is the node's part in a cluster, Server the server that its API server calls.
	Cluster Cluster
	Server  Server

	// HealthzPort 0 disables the health server.
	HealthzPort        int32
	HealthzBindAddress string
	// Profiling serves net/http/pprof under /debug/pprof/ on the health server's port, without authentication. It is off
	// by default: a profile exposes the agent's internals and costs CPU.
	Profiling bool

	// JournalSync is "always" or "interval:<duration>".
	JournalSync string
	// JournalRetentionAge and JournalRetentionBytes (a quantity such as 2Gi) bound the journal; 0: no bound.
	JournalRetentionAge   time.Duration
	JournalRetentionBytes string
	// BusListen is host:port for observers; empty opens no port. Off the loopback interface it needs the certificate.
	BusListen string
	// BusTLSCertFile and BusTLSPrivateKeyFile are the port's certificate and its key. They are not the kubelet's
	// tlsCertFile and tlsPrivateKeyFile: those are its API's, which has other clients.
	BusTLSCertFile, BusTLSPrivateKeyFile string
	// ObserveContainerOutput shows observers what containers and device plugins say. Otherwise their events, live and of
	// the past, have a mark in its place.
	ObserveContainerOutput bool

	// TracingEndpoint is host:port of an OTLP receiver. TracingSamplingRatePerMillion is how many of a million starts of
	// pods are traced; 0: none, and nothing is connected.
	TracingEndpoint               string
	TracingSamplingRatePerMillion int32

	// Verbosity 2 and above adds debug messages to the log.
	Verbosity int
	LogFormat string

	// Once ends the run when every pod of the sources has ended, or is ready if it restarts for ever. OnceTimeout bounds
	// that; 0: no bound.
	Once        bool
	OnceTimeout time.Duration

	// LockFile is a file whose lock the agent waits for before it starts; empty: none. With ExitOnLockContention the
	// agent stops when another process opens it.
	LockFile             string
	ExitOnLockContention bool

	// AllowBesideKubelet permits a start although a kubelet runs on the same runtime.
	AllowBesideKubelet bool
}

// The values of --enforce-node-allocatable: all pods together, or nothing, or the cgroup of system daemons or of node
// agents with all that is reserved for it, or with its CPU alone.
const (
	EnforcePods            = "pods"
	EnforceNone            = "none"
	EnforceSystem          = "system-reserved"
	EnforceSystemOnlyCPU   = "system-reserved-compressible"
	EnforceKube            = "kube-reserved"
	EnforceKubeOnlyCPU     = "kube-reserved-compressible"
	systemReservedCgroup   = "systemReservedCgroup (--system-reserved-cgroup)"
	kubeReservedCgroup     = "kubeReservedCgroup (--kube-reserved-cgroup)"
	enforceNodeAllocatable = "enforceNodeAllocatable (--enforce-node-allocatable)"
)

// The values of --sandbox-seccomp-profile.
const (
	SandboxSeccompMinimal        = "minimal"
	SandboxSeccompRuntimeDefault = "RuntimeDefault"
)

// Defaults returns the default configuration.
func Defaults() *Config {
	return &Config{
		RootDir: DefaultRootDir, StaticPodPath: DefaultStaticPodPath,
		FileCheckFrequency: DefaultFileCheck, HTTPCheckFrequency: DefaultHTTPCheck,
		SwapBehavior: SwapNone, UserNamespaceIDs: idsUnit,
		CgroupsPerQOS: cgroup.AllByDefault(), CgroupDriver: cgroup.Cgroupfs,
		EnforceNodeAllocatable: []string{EnforcePods}, PodPidsLimit: -1, OOMScoreAdj: defaultOOMScore,
		CPUQuota: true, CPUQuotaPeriod: DefaultCPUQuotaPeriod, LocalStorage: true,
		ContainerRuntimeEndpoint: DefaultEndpoint, RuntimeRequestTimeout: DefaultRequestTimeout,
		CRIConcurrency:  defaultConcurrency(),
		RegistryPullQPS: DefaultPullQPS, RegistryBurst: DefaultPullBurst, MaxParallelImagePulls: DefaultParallelPulls,
		ImageGC: defaultImageGC(), ContainerLogs: defaultContainerLogs(),
		dead:     deadContainers{perContainer: 1, all: -1},
		Eviction: Eviction{Transition: PressureTransition},
		MaxPods:  DefaultMaxPods, PodLogDir: DefaultPodLogDir, ContainerLogDir: DefaultContainerLogDir,
		ResolvConf: DefaultResolvConf, MaxContainerRestartPeriod: DefaultMaxRestartPeriod,
		VolumeStatsAggPeriod:  DefaultVolumeStatsAggPeriod,
		SandboxSeccompProfile: SandboxSeccompMinimal,
		EnableServer:          true, StreamIdle: DefaultStreamIdle,
		HealthzPort: DefaultHealthzPort, HealthzBindAddress: DefaultHealthzAddress,
		ObserveContainerOutput: true,
		JournalSync:            "always", JournalRetentionAge: DefaultJournalAge, JournalRetentionBytes: DefaultJournalBytes,
		LogFormat: LogText, TracingEndpoint: DefaultTracingEndpoint,
		Cluster: defaultCluster(), Server: defaultServer(),
	}
}

// SimulatedPullTime returns how long a pull of the simulated runtime takes.
func (c *Config) SimulatedPullTime() time.Duration {
	u, err := url.Parse(c.ContainerRuntimeEndpoint)
	if err != nil {
		return 0
	}
	d, err := time.ParseDuration(u.Query().Get("pull"))
	if err != nil {
		return 0
	}
	return max(d, 0)
}

// SimulatedPaths moves the log directories below the root directory unless others were given: a simulated runtime must
// not need permissions for /var/log.
func (c *Config) SimulatedPaths() {
	if c.PodLogDir == DefaultPodLogDir {
		c.PodLogDir = filepath.Join(c.RootDir, own.Logs, "pods")
	}
	if c.ContainerLogDir == DefaultContainerLogDir {
		c.ContainerLogDir = filepath.Join(c.RootDir, own.Logs, "containers")
	}
}

func defaultConcurrency() int {
	return min(max(2*runtime.NumCPU(), MinConcurrency), MaxConcurrency)
}

// AddFlags adds the flags, with the kubelet's names where it has them. The values of c become their defaults.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ConfigFile, "config", c.ConfigFile, "KubeletConfiguration file to load; flags win over it")
	fs.StringVar(&c.ConfigDir, "config-dir", c.ConfigDir,
		"directory of drop-ins (*.conf) merged over --config in lexical order")
	fs.StringVar(&c.RootDir, "root-dir", c.RootDir, "data directory: journal, pods' volumes, credentials")
	fs.StringVar(&c.StaticPodPath, "static-pod-path", c.StaticPodPath,
		"directory of pod manifests to run, or one manifest")
	fs.StringVar(&c.StaticPodPath, "pod-manifest-path", c.StaticPodPath, "the kubelet's name for --static-pod-path")
	_ = fs.MarkHidden("pod-manifest-path")
	fs.StringVar(&c.StaticPodURL, "manifest-url", c.StaticPodURL,
		"URL of more pod manifests to run; put one with a secret into --config (staticPodURL): flags show in ps")
	fs.Var(headerFlag{&c.StaticPodURLHeader}, "manifest-url-header",
		"headers sent to --manifest-url; put secrets into --config (staticPodURLHeader): flags show in ps")
	fs.DurationVar(&c.HTTPCheckFrequency, "http-check-frequency", c.HTTPCheckFrequency,
		"interval between two requests to --manifest-url")
	fs.StringVar(&c.RuntimeClassPath, "runtime-class-path", c.RuntimeClassPath,
		"file or directory of RuntimeClass objects for pods; empty: none")
	c.addObjectFlags(fs)
	c.addCredentialFlags(fs)
	fs.StringVar(&c.ContainerRuntimeEndpoint, "container-runtime-endpoint", c.ContainerRuntimeEndpoint,
		"socket of the CRI runtime, or sim:// for a simulated one")
	fs.StringVar(&c.ImageServiceEndpoint, "image-service-endpoint", c.ImageServiceEndpoint,
		"if given, must equal the runtime's endpoint")
	fs.BoolVar(&c.CgroupsPerQOS, "cgroups-per-qos", c.CgroupsPerQOS,
		"create a cgroup for every pod, by QoS class, and bound all pods together; else only for pods with spec.resources. "+
			"Default: true on cgroup v2")
	fs.StringVar(&c.CgroupRoot, "cgroup-root", c.CgroupRoot, "parent of the pods' cgroups; empty: the root cgroup")
	fs.StringVar(&c.CgroupDriver, "cgroup-driver", c.CgroupDriver,
		"cgroupfs or systemd, for a runtime that does not report its driver")
	fs.StringSliceVar(&c.EnforceNodeAllocatable, "enforce-node-allocatable", c.EnforceNodeAllocatable,
		"what cgroups bound: pods (all pods together), system-reserved, kube-reserved, or these with -compressible (CPU "+
			"alone); or none")
	fs.Int64Var(&c.PodPidsLimit, "pod-max-pids", c.PodPidsLimit, "maximum number of processes in a pod; -1: no bound")
	fs.BoolVar(&c.ProtectKernelDefaults, "protect-kernel-defaults", c.ProtectKernelDefaults,
		"refuse to start while a kernel setting differs from what pods rely on; journalet check lists them")
	fs.IntVar(&c.CRIConcurrency, "cri-concurrency", c.CRIConcurrency,
		"maximum number of concurrent start calls; 1 serializes all calls to the runtime")
	fs.StringVar(&c.HostnameOverride, "hostname-override", c.HostnameOverride,
		"name of this node instead of the host name")
	fs.StringVar(&c.NodeIP, "node-ip", c.NodeIP, "address of this node, or an IPv4 and an IPv6 one separated by "+
		"a comma; 0.0.0.0 or :: prefers that family among the host's addresses")
	fs.StringToStringVar(&c.NodeLabels, "node-labels", c.NodeLabels, "labels of this node, key=value separated by commas")
	fs.Int32Var(&c.MaxPods, "max-pods", c.MaxPods, "maximum number of pods")
	c.addReservedFlags(fs)
	fs.StringVar(&c.PodLogDir, "pod-log-dir", c.PodLogDir, "directory of the pods' logs")
	fs.StringVar(&c.ContainerLogDir, "container-log-dir", c.ContainerLogDir, "directory of links to the containers' logs")
	fs.StringVar(&c.ResolvConf, "resolv-conf", c.ResolvConf, "resolver file for pods with DNS policy Default; empty: none")
	fs.StringSliceVar(&c.ClusterDNS, "cluster-dns", c.ClusterDNS, "addresses of the cluster's DNS servers")
	fs.StringVar(&c.ClusterDomain, "cluster-domain", c.ClusterDomain, "DNS domain of the cluster")
	fs.BoolVar(&c.SeccompDefault, "seccomp-default", c.SeccompDefault,
		"use the RuntimeDefault seccomp profile for containers without one")
	fs.StringVar(&c.SandboxSeccompProfile, "sandbox-seccomp-profile", c.SandboxSeccompProfile,
		"seccomp profile of pause processes: minimal (stricter, faster to load) or RuntimeDefault (as the kubelet)")
	fs.Int32Var(&c.HealthzPort, "healthz-port", c.HealthzPort, "port of /healthz; 0: none")
	fs.StringVar(&c.HealthzBindAddress, "healthz-bind-address", c.HealthzBindAddress, "address of /healthz")
	fs.BoolVar(&c.Profiling, "profiling", c.Profiling,
		"serve Go profiles on /debug/pprof/ of --healthz-port, without authentication")
	c.addImageFlags(fs)
	c.addLogFlags(fs)
	c.addAPIFlags(fs)
	c.addClusterFlags(fs)
	c.addServerFlags(fs)
	c.addBusFlags(fs)
	c.addOnceFlags(fs)
	c.dead.addFlags(fs)
	c.addTracingFlags(fs)
	c.addOutputFlags(fs)
	c.addLockFlags(fs)
	addKubeletFlags(fs)
	fs.BoolVar(&c.AllowBesideKubelet, "allow-beside-kubelet", c.AllowBesideKubelet,
		"start even if a kubelet runs on the same runtime")
}

// addOutputFlags adds the flags of the agent's own log.
func (c *Config) addOutputFlags(fs *pflag.FlagSet) {
	fs.IntVarP(&c.Verbosity, "v", "v", c.Verbosity, "log verbosity; 2 and above adds debug messages")
	fs.StringVar(&c.LogFormat, "log-format", c.LogFormat, "text or json")
}

// addObjectFlags adds the flags of the store of objects. The kubelet has none of them: its objects are an API server's.
func (c *Config) addObjectFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ObjectsPath, "objects-path", c.ObjectsPath,
		"file or directory of ConfigMaps, Secrets and ClusterTrustBundles for pods, besides those in --static-pod-path")
	fs.StringToStringVar(&c.ServiceAccountTokenFiles, "service-account-token-file", c.ServiceAccountTokenFiles,
		"file with the token of a service account for its pods, NAMESPACE/NAME=PATH; may be given several times")
	fs.StringVar(&c.OfflineSecrets, "offline-secrets", c.OfflineSecrets,
		"keep Secrets of pods of the API server, sealed, for a start without it: directory of the key, outside of "+
			"--root-dir, or systemd-creds; empty: keep none")
}

// addCredentialFlags adds the flags of credential provider plugins, which are the kubelet's.
func (c *Config) addCredentialFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ImageCredentialProviderConfig, "image-credential-provider-config", c.ImageCredentialProviderConfig,
		"file or directory with the configuration of credential provider plugins (CredentialProviderConfig); empty: none")
	fs.StringVar(&c.ImageCredentialProviderBinDir, "image-credential-provider-bin-dir", c.ImageCredentialProviderBinDir,
		"directory with the programs of credential provider plugins")
}

// addOnceFlags adds the flags of a run that ends by itself.
func (c *Config) addOnceFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.Once, "once", c.Once, "read each source once and end when every pod has ended, or is ready if its "+
		"restartPolicy is Always; exit code 1 if one failed")
	fs.BoolVar(&c.Once, "runonce", c.Once, "the kubelet's name for --once")
	_ = fs.MarkHidden("runonce")
	fs.DurationVar(&c.OnceTimeout, "once-timeout", c.OnceTimeout, "with --once: longest wait for the pods; 0: no bound")
}

// addBusFlags adds the flags of the journal and of the port of its bus.
func (c *Config) addBusFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.JournalSync, "journal-sync", c.JournalSync,
		"when to sync the journal to disk: always or interval:<duration>")
	fs.DurationVar(&c.JournalRetentionAge, "journal-retention-age", c.JournalRetentionAge,
		"maximum age of journal records that the state does not need; 0: no bound")
	fs.StringVar(&c.JournalRetentionBytes, "journal-retention-bytes", c.JournalRetentionBytes,
		"maximum size of the journal with its manifests, such as 2Gi; 0: no bound")
	fs.StringVar(&c.BusListen, "bus-listen", c.BusListen,
		"host:port for NATS clients with a key of bus/credentials; empty: none. Other than on loopback it needs --bus-tls-*")
	fs.StringVar(&c.BusTLSCertFile, "bus-tls-cert-file", c.BusTLSCertFile,
		"PEM file with the certificate of --bus-listen; read again when it has changed")
	fs.StringVar(&c.BusTLSPrivateKeyFile, "bus-tls-private-key-file", c.BusTLSPrivateKeyFile,
		"PEM file with the key of --bus-tls-cert-file")
	fs.BoolVar(&c.ObserveContainerOutput, "observe-container-output", c.ObserveContainerOutput,
		"whether events for observers have termination messages, output of probes and hooks, and values of device plugins")
}

// Problem is a warning about a configuration file that does not prevent a start.
type Problem struct {
	File    string
	Field   string // such as logging.vmodule; may be empty
	Message string
}

// String returns "file: field: message".
func (p Problem) String() string {
	if p.Field == "" {
		return fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	return fmt.Sprintf("%s: %s: %s", p.File, p.Field, p.Message)
}
