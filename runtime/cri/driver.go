package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/pod/volume"
)

// The folders that every log shipper expects.
const (
	DefaultPodLogDir       = "/var/log/pods"
	DefaultContainerLogDir = "/var/log/containers"
)

// Kubelet defaults: registryPullQPS and registryBurst.
const (
	DefaultPullQPS   = 5
	DefaultPullBurst = 10
)

// Timeouts bound the calls on the runtime; a zero field takes its default.
type Timeouts struct {
	// Call bounds every call that has no bound of its own. Default 2 min (kubelet runtimeRequestTimeout).
	Call time.Duration
	// Sandbox bounds RunPodSandbox. Default 4 min, twice Call, as in the kubelet: CNI plugins take their time.
	Sandbox time.Duration
	// Look bounds one look at the world while a call is in doubt. Default 10 s.
	Look time.Duration
	// PullReport is how often a pull under way is reported. Default 10 s.
	PullReport time.Duration
	// PullStall ends a pull during which the image file system did not grow for so long. Default 30 min: the
	// runtime shows growth only when a layer is unpacked, and has a stricter watchdog of its own.
	PullStall time.Duration
	// BackOff and MaxBackOff bound the wait between two looks. Default 100 ms, doubling to 5 s.
	BackOff, MaxBackOff time.Duration
	// Twin is how long a name that the runtime holds for a call we cannot see yet is waited for. Default 2 min.
	Twin time.Duration
	// Drain is how long a call that makes something may go on once the agent stops. Default 10 s.
	Drain time.Duration
}

// Options configure a Driver. Conn, AgentID, Manifest, Hash and Volumes must be set.
type Options struct {
	Conn grpc.ClientConnInterface
	// ImageConn is the image service's connection; nil: it is Conn.
	ImageConn grpc.ClientConnInterface
	// Node is the node's name (spec.nodeName in the downward API).
	Node string
	// PodLogDir and ContainerLogDir default to /var/log/pods and /var/log/containers.
	PodLogDir, ContainerLogDir string
	// AgentID marks what this agent made, in annotation AnnotationAgent.
	AgentID string
	// Manifest gives the pod with this manifest digest.
	Manifest func(ctx context.Context, digest string) (*corev1.Pod, error)
	// Hash is the kubelet's container hash, in hex.
	Hash func(*corev1.Container) string

	// HostIPs are the node's, the primary one first.
	HostIPs []string
	// ClusterDNS and ClusterDomain serve DNS policy ClusterFirst; without servers it falls back to the host's.
	ClusterDNS    []string
	ClusterDomain string
	// ResolvConf is the host's resolver file; empty: pods with DNS policy Default get no resolver.
	ResolvConf string
	// HostsFile is copied into host-network pods. Default /etc/hosts.
	HostsFile string
	// SeccompDefault makes RuntimeDefault the profile of containers that name none (kubelet seccompDefault).
	SeccompDefault bool
	// SandboxSeccomp is the path of the pause processes' profile (WriteSandboxSeccomp); empty: RuntimeDefault.
	SandboxSeccomp string
	// SeccompRoot is where profiles of type Localhost are.
	SeccompRoot string
	// PodCgroups are the pods' cgroups; nil: they get none, and the runtime puts them where it likes.
	PodCgroups *cgroup.Tree
	// CgroupDriver is for a runtime that does not tell its own, cgroup.Cgroupfs or cgroup.Systemd. Default cgroup.Cgroupfs.
	CgroupDriver string
	// CgroupV2 lets cgroup v2 settings be sent (memory.oom.group).
	CgroupV2 bool
	// Cgroups is what else containers are held to: no swap (kubelet memorySwap: NoSwap) and no huge pages.
	Cgroups Cgroups
	// MemoryCapacity is the node's memory in bytes, for OOM scores.
	MemoryCapacity int64
	// Allocatable stands in for limits that a container does not set, in resourceFieldRef. May be nil.
	Allocatable func() corev1.ResourceList

	Volumes  *volume.Driver
	Timeouts Timeouts
	// PullQPS and PullBurst limit how often pulls begin; zero: the defaults, negative QPS: no limit.
	PullQPS   float64
	PullBurst int
	// Progress hears of pulls under way. May be nil.
	Progress func(*journaletv1.PullProgressed)
	Log      *slog.Logger
	Clock    Clock
}

// Driver performs the journal's calls on the container runtime. It decides nothing and holds no state but a rate
// limit; its methods may be called concurrently. Calls for one container must not overlap (the runtime actor sees to it);
// its hooks may run beside them.
type Driver struct {
	opts   Options
	log    *slog.Logger
	clock  Clock
	rt     runtimeapi.RuntimeServiceClient
	images runtimeapi.ImageServiceClient
	pulls  *rate.Limiter
}

// New makes a driver. It makes no call, so the runtime need not be there yet. It panics if a field of Options that
// must be set is not: that is a mistake of the program.
func New(opts Options) *Driver {
	if opts.Conn == nil || opts.AgentID == "" || opts.Manifest == nil || opts.Hash == nil || opts.Volumes == nil {
		panic("cri: Options needs Conn, AgentID, Manifest, Hash and Volumes")
	}
	setDefaults(&opts)
	d := &Driver{opts: opts, log: opts.Log, clock: opts.Clock}
	d.rt = runtimeapi.NewRuntimeServiceClient(opts.Conn)
	d.images = runtimeapi.NewImageServiceClient(opts.ImageConn)
	limit := rate.Limit(opts.PullQPS)
	if opts.PullQPS < 0 {
		limit = rate.Inf
	}
	d.pulls = rate.NewLimiter(limit, opts.PullBurst)
	return d
}

func setDefaults(o *Options) {
	if o.ImageConn == nil {
		o.ImageConn = o.Conn
	}
	orDefault(&o.PodLogDir, DefaultPodLogDir)
	orDefault(&o.ContainerLogDir, DefaultContainerLogDir)
	orDefault(&o.HostsFile, "/etc/hosts")
	orDefault(&o.CgroupDriver, cgroup.Cgroupfs)
	orDefault(&o.PullQPS, DefaultPullQPS)
	orDefault(&o.PullBurst, DefaultPullBurst)
	t := &o.Timeouts
	orDefault(&t.Call, 2*time.Minute)
	orDefault(&t.Sandbox, 2*t.Call)
	orDefault(&t.Look, 10*time.Second)
	orDefault(&t.PullReport, 10*time.Second)
	orDefault(&t.PullStall, 30*time.Minute)
	orDefault(&t.BackOff, 100*time.Millisecond)
	orDefault(&t.MaxBackOff, 5*time.Second)
	orDefault(&t.Twin, 2*time.Minute)
	orDefault(&t.Drain, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = RealClock{}
	}
	if o.Progress == nil {
		o.Progress = func(*journaletv1.PullProgressed) {}
	}
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// call is one intent under way.
type call struct {
	*Driver
	intent  string
	uid     string
	inDoubt bool
	log     *slog.Logger
}

// result is what a call learnt.
type result struct {
	sandboxID, containerID, imageRef string
	imageBytes                       int64
	actual                           *journaletv1.Resources
}

// Perform does the work of one intent and returns its outcome, once that is known. With inDoubt the work may have
// been done before: it looks first. It returns nil only when ctx ends before the outcome is known: the intent is then
// in doubt for the next run. A call that makes something is given Timeouts.Drain to end after that, so that the outcome of
// an orderly stop is known more often than not. Otherwise Perform waits as long as the runtime gives no answer.
func (d *Driver) Perform(ctx context.Context, intentID, requester string, req *journaletv1.CallRequested, inDoubt bool) *journaletv1.CallFinished {
	c := &call{Driver: d, intent: intentID, uid: req.GetPodUid(), inDoubt: inDoubt}
	c.log = d.log.With("intent", intentID, "pod", c.uid)
	began := d.clock.Now()
	res, err := c.do(ctx, req)
	if err != nil && ctx.Err() != nil && !isFailure(err) {
		c.log.Info("call left in doubt: the agent stops", "error", err)
		return nil
	}
	out := &journaletv1.CallFinished{
		IntentId: intentID, Requester: requester,
		SandboxId: res.sandboxID, ContainerId: res.containerID, ImageRef: res.imageRef, ImageBytes: res.imageBytes,
		Reported: res.actual,
	}
	if err != nil {
		f := failureOf(err)
		out.Error, out.Message, out.Retryable = f.code, f.message, f.retryable
		c.log.Warn("call failed", "code", f.code, "error", f.message, "took", d.clock.Now().Sub(began))
		return out
	}
	c.log.Debug("call done", "took", d.clock.Now().Sub(began))
	return out
}

func (c *call) do(ctx context.Context, req *journaletv1.CallRequested) (result, error) {
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return c.runSandbox(ctx, w.RunSandbox)
	case *journaletv1.CallRequested_StartContainer:
		return c.startContainer(ctx, w.StartContainer)
	case *journaletv1.CallRequested_UpdateContainer:
		return c.updateContainer(ctx, w.UpdateContainer)
	case *journaletv1.CallRequested_StopContainer:
		return c.stopContainer(ctx, w.StopContainer)
	case *journaletv1.CallRequested_RemoveContainer:
		return c.removeContainer(ctx, w.RemoveContainer.GetContainerId())
	case *journaletv1.CallRequested_StopSandbox:
		return c.stopSandbox(ctx, w.StopSandbox.GetSandboxId())
	case *journaletv1.CallRequested_RemoveSandbox:
		return c.removeSandbox(ctx, w.RemoveSandbox.GetSandboxId())
	case *journaletv1.CallRequested_PullImage:
		return c.pullImage(ctx, w.PullImage.GetImage())
	case *journaletv1.CallRequested_SetUpVolumes:
		return c.setUpVolumes(ctx, w.SetUpVolumes)
	case *journaletv1.CallRequested_CleanPod:
		return c.cleanPod(ctx, w.CleanPod)
	case *journaletv1.CallRequested_RunHook:
		return c.runHook(ctx, w.RunHook)
	}
	return result{}, fail(journaletv1.CallError_CALL_ERROR_INVALID_RESPONSE, "the intent asks for work that this version does not know; upgrade the agent")
}

func (c *call) setUpVolumes(ctx context.Context, req *journaletv1.SetUpVolumes) (result, error) {
	pod, err := c.manifest(ctx, req.GetDigest())
	if err != nil {
		return result{}, err
	}
	if err := c.opts.Volumes.SetUp(ctx, pod); err != nil {
		return result{}, retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	return result{}, nil
}

func (c *call) cleanPod(ctx context.Context, req *journaletv1.CleanPod) (result, error) {
	err := c.opts.Volumes.TearDown(ctx, c.uid)
	if err == nil && req.GetAll() {
		err = c.opts.Volumes.Clean(ctx, c.uid, req.GetNamespace(), req.GetName())
	}
	if err != nil {
		return result{}, retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	if req.GetAll() {
		err = c.removeCgroup(ctx)
	}
	return result{}, err
}

// manifest reads the pod that an intent is about. A manifest of another pod would start the wrong thing: refused.
func (c *call) manifest(ctx context.Context, digest string) (*corev1.Pod, error) {
	pod, err := c.opts.Manifest(ctx, digest)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, retryable(journaletv1.CallError_CALL_ERROR_CONFIG, fmt.Sprintf("read the manifest %s: %v", digest, err))
	}
	if string(pod.UID) != c.uid {
		return nil, fail(journaletv1.CallError_CALL_ERROR_CONFIG,
			fmt.Sprintf("the manifest %s is of pod %s, not of %s", digest, pod.UID, c.uid))
	}
	return pod, nil
}

// failure is a definite outcome that is not success.
type failure struct {
	code      journaletv1.CallError
	message   string
	retryable bool
}

func (f *failure) Error() string { return f.message }

// maxMessageBytes bounds what a failure tells: runtimes put whole command outputs into errors.
const maxMessageBytes = 4 << 10

func fail(code journaletv1.CallError, message string) *failure {
	return &failure{code: code, message: clip(message)}
}

func retryable(code journaletv1.CallError, message string) *failure {
	return &failure{code: code, message: clip(message), retryable: true}
}

func isFailure(err error) bool {
	var f *failure
	return errors.As(err, &f)
}

func failureOf(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, messageOf(err))
}
