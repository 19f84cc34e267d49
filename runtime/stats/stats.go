package stats

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/runtime/stats/usage"
)

const (
	// Fresh is for how long a reading of cgroups serves all who ask. It bounds what many clients cost.
	Fresh = time.Second
	// FirstPause is the time between two readings of CPU time where there is no earlier reading to compare with. The
	// kernel counts in steps of a few milliseconds.
	FirstPause = 50 * time.Millisecond
	// MaxWindow is the age beyond which an earlier reading of CPU time is not compared with: its average would not be
	// what is used now.
	MaxWindow = time.Minute
	// MaxWait bounds how long an answer waits for all that is slow or hangs: file systems and the runtime.
	MaxWait = 500 * time.Millisecond
	// FilesystemPeriod is how long figures of file systems and of writable layers count (containerd measures layers every
	// 10 s).
	FilesystemPeriod = 10 * time.Second
	// VolumePeriod is how long figures of volumes and logs count (kubelet default of volumeStatsAggPeriod: 1 min).
	VolumePeriod = time.Minute
	// slowTimeout ends a slow measurement that reacts to it. A file system that hangs does not.
	slowTimeout = 2 * time.Minute
	// runtimeTimeout bounds a request to the runtime.
	runtimeTimeout = 10 * time.Second
)

// Pod is a pod with a sandbox, as the agent knows it.
type Pod struct {
	// Manifest is not changed.
	Manifest *corev1.Pod
	// Cgroup is the path of its cgroup; empty: it has none.
	Cgroup string
	// Sandbox is the newest ready sandbox. Containers are the containers that run in it.
	Sandbox     Object
	HostNetwork bool
	Containers  []Container
}

// Object is a sandbox or a container of the runtime.
type Object struct {
	ID      string
	Created time.Time
}

// Container is a running container.
type Container struct {
	Object
	Name, Image string
	Started     time.Time
}

// Storage measures files of pods, within its own bounds.
type Storage interface {
	Volume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (storage.Measured, error)
	Logs(ctx context.Context, pod *corev1.Pod, container string) (bounded.Usage, error)
	Hosts(ctx context.Context, pod *corev1.Pod) (bounded.Usage, error)
	Provided(ctx context.Context, uid string, atMost int64) (storage.Provided, error)
}

// Options configure Stats. Node, Pods, Conn, Storage and RootDir must be set.
type Options struct {
	Node string
	// Pods returns the pods with a sandbox, in any order. It must be fast: it is called for every reading.
	Pods func() []Pod
	// Conn reaches the container runtime.
	Conn    grpc.ClientConnInterface
	Storage Storage
	// RootDir is on the node's file system.
	RootDir string
	// Reader reads cgroups; nil: the machine has none to read, and neither CPU nor memory is known.
	Reader *usage.Reader
	// PodsCgroup returns the path of the cgroup above all pods; empty: no such cgroup. May be nil.
	PodsCgroup func() string
	// RuntimePID returns the runtime's process; 0: unknown. May be nil.
	RuntimePID func() int
	// Proc is /proc except in tests.
	Proc string
	// VolumePeriod defaults to the constant of this name. Negative: volumes are not measured.
	VolumePeriod time.Duration
	Now          func() time.Time
	Log          *slog.Logger
}

// Stats measures. Its methods may be called concurrently.
type Stats struct {
	opts    Options
	runtime cri.RuntimeServiceClient
	images  cri.ImageServiceClient
	begun   time.Time
	// maxWait is MaxWait, and signalWait is signalWait, but in tests of what does not hang.
	maxWait, signalWait time.Duration

	mu     sync.Mutex // held during a reading: simultaneous requests share the reading
	last   *reading
	rates  rates
	places places

	server  memo[int] // the runtime's process
	nodeFS  memo[runtimeFS]
	imageFS memo[imageFS]
	layers  memo[map[string]layer]
	disks   disks
	devices sync.Map // paths of block devices by their numbers
	signals signals
}

// New returns Stats. It measures nothing yet.
func New(o Options) *Stats {
	if o.VolumePeriod == 0 {
		o.VolumePeriod = VolumePeriod
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Stats{
		opts: o, runtime: cri.NewRuntimeServiceClient(o.Conn), images: cri.NewImageServiceClient(o.Conn), begun: o.Now(),
		maxWait: MaxWait, signalWait: signalWait,
		rates: rates{}, places: places{known: map[string]found{}},
		disks: disks{volumes: map[string]*memo[storage.Measured]{}, files: map[string]*memo[bounded.Usage]{},
			provided: map[string]*memo[storage.Provided]{},
			slots:    make(chan struct{}, maxWalks)},
	}
	s.nodeFS = memo[runtimeFS]{period: FilesystemPeriod, measure: s.measureNode}
	s.server = memo[int]{period: FilesystemPeriod,
		measure: func(context.Context) (int, error) { return o.RuntimePID(), nil }}
	s.imageFS = memo[imageFS]{period: FilesystemPeriod, measure: s.measureImages}
	s.initSignals()
	s.layers = memo[map[string]layer]{period: FilesystemPeriod, measure: s.measureLayers}
	return s
}

// Scope is what a reading holds.
type Scope uint

// Scopes, which add up.
const (
	// Containers is CPU and memory of containers, and of pods as their sum.
	Containers Scope = 1 << iota
	// Cgroups is the node and its system containers and, of pods, their own cgroups, limits and pressure.
	Cgroups
	// Network adds the pods' and the node's interfaces.
	Network
	// Processes adds processes of pods.
	Processes
	// Details adds devices and what only cAdvisor's metrics show.
	Details
)

func (s Scope) has(other Scope) bool { return s&other == other }

// want returns what is read of a container's cgroup.
func (s Scope) want(swap bool) usage.Want {
	w := usage.Basic
	if swap {
		w |= usage.WantSwap
	}
	if s.has(Cgroups) {
		w |= usage.WantLimits | usage.WantPressure
	}
	if s.has(Processes) {
		w |= usage.WantProcesses
	}
	if s.has(Details) {
		w |= usage.WantDetails | usage.WantDevices
	}
	return w
}
