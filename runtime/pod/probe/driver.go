package probe

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
)

const (
	// Workers is how many probes run at once in the quick lane. Most wait for an answer, so it is far above the number of
	// cores. Those that hang have SlowWorkers of their own: see lanes.
	Workers = 64
	// manifestRetry is the wait after a manifest that could not be read.
	manifestRetry = time.Second
)

// Options configure a Driver; Conn, Manifest and Sink must be set.
type Options struct {
	// Conn is the container runtime, for exec.
	Conn grpc.ClientConnInterface
	// Manifest finds the pod that a digest names.
	Manifest func(ctx context.Context, digest string) (*corev1.Pod, error)
	// HostIPs are the node's addresses, the first of which pods on its network are probed at.
	HostIPs []string
	// Sink hears of every result that is news, from several goroutines, but for one probe one after the other. After an
	// error the result counts as untold.
	Sink func(context.Context, *journaletv1.ProbeResult) error
	// Observe hears of every run. May be nil; must return at once.
	Observe func(Run)
	// Forget hears of a pod of which nothing will be observed any more. May be nil; must return at once.
	Forget func(namespace, name, uid string)
	// Workers and SlowWorkers default to the constants of these names.
	Workers, SlowWorkers int
	// Attempt makes one attempt at a probe: whether it succeeds, and whether that could be learned. Default: by what the manifest says.
	Attempt func(context.Context, Attempt) (success, known bool)
	// Go runs a worker beside others. Default: a goroutine, which Run waits for.
	Go func(func())

	Clock cri.Clock
	Log   *slog.Logger
}

// Attempt is one attempt at a probe of one instance of a container.
type Attempt struct {
	PodUID, ContainerID string
	Kind                journaletv1.ProbeKind
	Probe               *corev1.Probe
}

// Run is one run of a probe, for those who count.
type Run struct {
	Kind                              journaletv1.ProbeKind
	Namespace, Pod, PodUID, Container string
	// Unknown: nothing was learnt.
	Success, Unknown bool
	// Late is how long after it was due the run began.
	Late, Took time.Duration
}

// containerKey is where probes are set: one container of one pod.
type containerKey struct{ uid, container string }

func (k containerKey) compare(l containerKey) int {
	return cmp.Or(strings.Compare(k.uid, l.uid), strings.Compare(k.container, l.container))
}

// setting is a ProbesSet whose manifest is still to be read.
type setting struct {
	set *journaletv1.ProbesSet
	// results were told in an earlier run of the agent.
	results []*journaletv1.ProbeResult
	// seeded: the instance was probed by an earlier run.
	seeded bool
	// retry is when the manifest is to be asked for again, after it could not be read. Only the scheduler knows it.
	retry time.Time
}

// podName is what a pod is called, for those who count.
type podName struct{ namespace, name string }

// Driver runs probes.
type Driver struct {
	opts  Options
	log   *slog.Logger
	clock cri.Clock
	rt    runtimeapi.RuntimeServiceClient
	began time.Time // where the grid of probes begins

	mu      sync.Mutex // guards everything below
	pending map[containerKey]*setting
	probes  map[containerKey]map[journaletv1.ProbeKind]*probe
	names   map[string]podName // by UID, of pods that are or were probed
	due     schedule
	lanes   lanes

	wake    chan struct{} // holds one call to look again
	workers sync.WaitGroup
}

// New makes a driver that runs nothing before Run.
func New(o Options) *Driver {
	if o.Conn == nil || o.Manifest == nil || o.Sink == nil {
		panic("probe: Options needs Conn, Manifest and Sink")
	}
	if o.Workers <= 0 {
		o.Workers = Workers
	}
	if o.SlowWorkers <= 0 {
		o.SlowWorkers = SlowWorkers
	}
	if o.Clock == nil {
		o.Clock = cri.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Driver{
		opts: o, log: o.Log, clock: o.Clock, rt: runtimeapi.NewRuntimeServiceClient(o.Conn), began: o.Clock.Now(),
		pending: map[containerKey]*setting{}, probes: map[containerKey]map[journaletv1.ProbeKind]*probe{}, names: map[string]podName{},
		lanes: lanes{quick: newLane(o.Workers), slow: newLane(o.SlowWorkers)}, wake: make(chan struct{}, 1),
	}
	if d.opts.Go == nil {
		d.opts.Go = d.workers.Go
	}
	return d
}

// Seed takes in what was probed at the end of the last run, and the results that were told, before Run. A result that is
// the same again is not told again, and no initial delay is waited out twice.
func (d *Driver) Seed(uid string, set *journaletv1.ProbesSet, results []*journaletv1.ProbeResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending[containerKey{uid, set.GetContainer()}] = &setting{set: set, results: results, seeded: true}
}

// SeedPending takes in a result that is in the journal and not in the state that Seed was taken from.
func (d *Driver) SeedPending(r *journaletv1.ProbeResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.pending[containerKey{r.GetUid(), r.GetContainer()}]
	if s != nil && s.set.GetContainerId() == r.GetContainerId() {
		s.results = append(s.results, r)
	}
}

// Stored takes note of a stored record.
func (d *Driver) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_ProbesSet:
			d.set(messages.RefOf(rec.GetActor()).ID, k.ProbesSet)
		case *journaletv1.Event_PodTerminated:
			d.forget(k.PodTerminated.GetUid())
		case *journaletv1.Event_PodForgotten:
			d.forget(k.PodForgotten.GetUid())
		}
	}
}

// set ends at once what is no longer to be probed; what is to be begins when the manifest is read.
func (d *Driver) set(uid string, s *journaletv1.ProbesSet) {
	at := containerKey{uid, s.GetContainer()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(s.GetKinds()) == 0 {
		delete(d.pending, at)
		d.end(at)
		return
	}
	next := &setting{set: s}
	if old := d.pending[at]; old != nil && old.set.GetContainerId() == s.GetContainerId() {
		next.results, next.seeded = old.results, old.seeded
	}
	d.pending[at] = next
	d.signal()
}

// end ends all probes of a container; d.mu is held.
func (d *Driver) end(at containerKey) {
	for _, p := range d.probes[at] {
		d.drop(p)
	}
	delete(d.probes, at)
}

// forget ends all probes of a pod.
func (d *Driver) forget(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := range d.pending {
		if at.uid == uid {
			delete(d.pending, at)
		}
	}
	for at := range d.probes {
		if at.uid == uid {
			d.end(at)
		}
	}
	if n, ok := d.names[uid]; ok && d.opts.Forget != nil {
		d.opts.Forget(n.namespace, n.name, uid)
	}
	delete(d.names, uid)
}

// signal has the scheduler look again.
func (d *Driver) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}
