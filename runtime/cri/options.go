package cri

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/cri/reap"
	"github.com/journalet/journalet/runtime/image/credentials"
	"github.com/journalet/journalet/runtime/objects"
)

// The directories that log shippers expect.
const (
	DefaultPodLogDir       = "/var/log/pods"
	DefaultContainerLogDir = "/var/log/containers"
)

// Kubelet defaults: registryPullQPS and registryBurst.
const (
	DefaultPullQPS   = 5
	DefaultPullBurst = 10
)

// Options configure a Driver. Conn, Owner, Hash and Volumes must be set.
type Options struct {
	Conn grpc.ClientConnInterface
	// ImageConn is the connection to the image service; nil: Conn.
	ImageConn grpc.ClientConnInterface
	// Node is the node's name (spec.nodeName in the downward API).
	Node string
	// PodLogDir and ContainerLogDir default to /var/log/pods and /var/log/containers.
	PodLogDir, ContainerLogDir string
	// Owner marks the objects of this agent, and knows them.
	Owner Owner
	// Hash is the kubelet's container hash, in hex.
	Hash func(*corev1.Container) string

	Network   Network
	Security  Security
	Resources Resources
	Pulls     Pulls
	Volumes   Volumes
	Timeouts  Timeouts

	// PodCgroups are the pods' cgroups; nil: pods have none, and the runtime chooses the parent.
	PodCgroups *cgroup.Tree
	// CgroupDriver is for a runtime that does not report its own: cgroup.Cgroupfs (default) or cgroup.Systemd.
	CgroupDriver string
	// Allocatable replaces limits that a container does not set, in resourceFieldRef. May be nil.
	Allocatable func() corev1.ResourceList
	// Objects returns the ConfigMaps and Secrets that variables refer to. Nil: a reference to one fails.
	Objects objects.Getter
	// ServiceEnv returns the variables of services: the API server's, and with links also the pod's namespace's. Nil:
	// there is no cluster, and so no services.
	ServiceEnv func(ctx context.Context, pod *corev1.Pod, links bool) (map[string]string, error)
	// RuntimeHandler returns the runtime handler of a pod of the API server; ok is false for another pod, whose manifest
	// has it. Nil: there is no cluster.
	RuntimeHandler func(pod *corev1.Pod) (handler string, ok bool, err error)
	// Stat is os.Stat for what device plugins give containers. Nil: os.Stat. A simulated node has no such files.
	Stat func(path string) (os.FileInfo, error)
	// Reaper ends what hooks that time out have started. Nil: that stays.
	Reaper *reap.Reaper
	// Warn receives what a person should know of a sandbox although it is created: the kubelet's reason and message. May
	// be nil.
	Warn func(pod *corev1.Pod, reason, message string)
	// HTTP sends the request of a hook; any response is a success. The default client does not verify certificates, as
	// the kubelet's.
	HTTP  func(*http.Request) error
	Log   *slog.Logger
	Clock clock.Clock
}

// Network is what pods get of the node's network.
type Network struct {
	// HostIPs are the machine's addresses, the primary one first: the pods' addresses follow its family. NodeIPs
	// returns the addresses that pods get as the node's, or why they are not known. Nil: HostIPs.
	HostIPs []string
	NodeIPs func() ([]string, error)
	// ClusterDNS and ClusterDomain are for DNS policy ClusterFirst. Without servers, it uses the host's resolver file.
	ClusterDNS    []string
	ClusterDomain string
	// ResolvConf is the host's resolver file; empty: pods with DNS policy Default get no resolver.
	ResolvConf string
	// HostsFile is copied into host-network pods. Default /etc/hosts.
	HostsFile string
}

// Security is what the node adds to the security contexts of pods.
type Security struct {
	// SeccompDefault gives containers without a profile RuntimeDefault (kubelet seccompDefault).
	SeccompDefault bool
	// SandboxSeccomp is the path of the pause processes' profile (WriteSandboxSeccomp). Default RuntimeDefault.
	SandboxSeccomp string
	// SeccompRoot is the directory of profiles of type Localhost.
	SeccompRoot string
	// SELinux is enabled on the node: volumes get the pod's label.
	SELinux bool
}

// Resources are how requests and limits of containers become settings of their cgroups.
type Resources struct {
	// CgroupV2 allows settings of cgroup v2 (memory.oom.group).
	CgroupV2 bool
	// Cgroups says which further limits the node supports: of swap, of huge pages.
	Cgroups Cgroups
	// CPUQuota is how limits of CPU are enforced.
	CPUQuota cgroup.CPUQuota
	// SingleProcessOOMKill has the kernel kill one process that lacks memory, not all of its container, on cgroup v2; on
	// v1 it always does.
	SingleProcessOOMKill bool
	// MemoryCapacity is the node's memory in bytes, for OOM scores and swap.
	MemoryCapacity int64
	// MemoryThrottling is the fraction of the memory beyond its request at which the kernel starts to throttle a
	// container, on cgroup v2; 0: no throttling. PodsMemory is what all pods have together, in bytes, for containers
	// without a limit.
	MemoryThrottling float64
	PodsMemory       int64
	// ReserveMemory keeps the memory that a container requests from being reclaimed, on cgroup v2.
	ReserveMemory bool
	// LimitedSwap lets Burstable containers swap (kubelet memorySwap: LimitedSwap): each gets of SwapCapacity, in bytes,
	// the share that it requests of the node's memory. It needs cgroup v2.
	LimitedSwap  bool
	SwapCapacity int64
}

// Pulls are how images are pulled.
type Pulls struct {
	// Credentials are the credentials of pulls. Nil: pulls have no credentials, and every pod may use every image on
	// the node.
	Credentials Credentials
	// QPS and Burst limit how often pulls begin; zero: the defaults, negative QPS: no limit.
	QPS   float64
	Burst int
	// Progress receives the progress of pulls. May be nil.
	Progress func(*journaletv1.PullProgressed)
}

// Credentials finds the credentials of pulls, and verifies pods (runtime/image/credentials).
type Credentials interface {
	// Find returns what a pull may try.
	Find(context.Context, *journaletv1.PullImage) credentials.Found
	// MustPull reports whether a pod may have an image that is on the node, with this id, only after a pull of its own.
	MustPull(ctx context.Context, pod *corev1.Pod, image, id string) bool
	// StillPulls reports the same of the pods of a pull, before it begins for this intent.
	StillPulls(ctx context.Context, pull *journaletv1.PullImage, intent, id string) bool
}

// Timeouts bound the calls on the runtime; a zero field takes its default.
type Timeouts struct {
	// Call bounds every call that has no bound of its own. Default 2 min (kubelet runtimeRequestTimeout).
	Call time.Duration
	// Sandbox bounds RunPodSandbox. Default 4 min, twice Call, as in the kubelet: CNI plugins are slow.
	Sandbox time.Duration
	// Inspect bounds one inspection of the runtime while a call is in doubt. Default 10 s.
	Inspect time.Duration
	// PullReport is how often a pull under way is reported. Default 10 s.
	PullReport time.Duration
	// PullStall ends a pull during which the image file system did not grow for so long. Default 30 min: the
	// runtime reports growth only when a layer is unpacked, and has a stricter watchdog of its own.
	PullStall time.Duration
	// BackOff and MaxBackOff bound the wait between two attempts. Default 100 ms, doubling to 5 s.
	BackOff, MaxBackOff time.Duration
	// ReservedName bounds the wait for a name that the runtime reserves for a call whose object is not listed yet.
	// Default 2 min.
	ReservedName time.Duration
	// Drain is how long a call that creates or starts an object, or stops a sandbox, may continue once the agent stops.
	// Default 10 s.
	Drain time.Duration
}

func setDefaults(o *Options) {
	if o.ImageConn == nil {
		o.ImageConn = o.Conn
	}
	o.PodLogDir = cmp.Or(o.PodLogDir, DefaultPodLogDir)
	o.ContainerLogDir = cmp.Or(o.ContainerLogDir, DefaultContainerLogDir)
	o.Network.HostsFile = cmp.Or(o.Network.HostsFile, "/etc/hosts")
	o.CgroupDriver = cmp.Or(o.CgroupDriver, cgroup.Cgroupfs)
	p := &o.Pulls
	p.QPS, p.Burst = cmp.Or(p.QPS, DefaultPullQPS), cmp.Or(p.Burst, DefaultPullBurst)
	if p.Progress == nil {
		p.Progress = func(*journaletv1.PullProgressed) {}
	}
	t := &o.Timeouts
	t.Call = cmp.Or(t.Call, 2*time.Minute)
	t.Sandbox = cmp.Or(t.Sandbox, 2*t.Call)
	t.Inspect = cmp.Or(t.Inspect, 10*time.Second)
	t.PullReport = cmp.Or(t.PullReport, 10*time.Second)
	t.PullStall = cmp.Or(t.PullStall, 30*time.Minute)
	t.BackOff = cmp.Or(t.BackOff, 100*time.Millisecond)
	t.MaxBackOff = cmp.Or(t.MaxBackOff, 5*time.Second)
	t.ReservedName = cmp.Or(t.ReservedName, 2*time.Minute)
	t.Drain = cmp.Or(t.Drain, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.Real{})
	if o.HTTP == nil {
		o.HTTP = send
	}
	if o.Stat == nil {
		o.Stat = os.Stat
	}
}
