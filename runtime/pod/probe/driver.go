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
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri/reap"
)

const (
	// Workers bounds how many probes run at once in the quick lane. Most wait for a response, so it is far above the
	// number of cores. Hanging probes have their own SlowWorkers: see lanes.
	Workers = 64
	// manifestRetry is the wait before a failed read of a manifest is retried.
	manifestRetry = time.Second
)

// Options configure a Driver; Conn, Manifest and Sink must be set.
type Options struct {
	// Conn is the container runtime, for exec.
	Conn grpc.ClientConnInterface
	// Manifest returns the pod with this manifest digest.
	Manifest func(ctx context.Context, digest string) (*corev1.Pod, error)
	// HostIPs returns the node's addresses, each time a probe runs. Probes of pods on the host's network use the first
	// one. Nil: it has none.
	HostIPs func() []string
	// Sink receives every changed result and each probe's first warning, from several goroutines, but for one probe in
	// sequence. After an error the next run reports the result again.
	Sink func(context.Context, *journaletv1.ProbeResult) error
	// Observe receives every run, for metrics. May be nil; must not block.
	Observe func(Run)
	// Forget is called when no more runs of a pod will be observed. May be nil; must not block.
	Forget func(namespace, name, uid string)
	// Redact takes credentials of a pod out of a text, beside the credentials in its manifest. May be nil.
	Redact func(uid, text string) string
	// Reaper ends what commands that time out have started. Nil: that stays.
	Reaper *reap.Reaper
	// Workers and SlowWorkers default to the constants of these names.
	Workers, SlowWorkers int
	// Attempt runs one attempt of a probe. known is false if the attempt has no result. The default runs the handler of
	// the manifest.
	Attempt func(context.Context, Attempt) (success, known bool)
	// Go runs a worker concurrently. Default: a goroutine, which Run waits for.
	Go func(func())

	Clock clock.Clock
	Log   *slog.Logger
}

// Attempt is one attempt of a probe of one instance of a container.
type Attempt struct {
	PodUID, ContainerID string
	Kind                journaletv1.ProbeKind
	Probe               *corev1.Probe
}

// Run is one run of a probe, for metrics.
type Run struct {
	Kind                              journaletv1.ProbeKind
	Namespace, Pod, PodUID, Container string
	// Unknown means that the run has no result.
	Success, Unknown bool
	// Late is the delay between the due time and the begin of the run.
	Late, Took time.Duration
}

// containerKey identifies one container of one pod.
type containerKey struct{ uid, container string }

func (k containerKey) compare(l containerKey) int {
	return cmp.Or(strings.Compare(k.uid, l.uid), strings.Compare(k.container, l.container))
}

// setting is a ProbesSet whose manifest is not read yet.
type setting struct {
	set *journaletv1.ProbesSet
	// results are those reported in an earlier run of the agent.
	results []*journaletv1.ProbeResult
	// seeded means that an earlier run of the agent probed the instance.
	seeded bool
	// retry is when to read the manifest again after a failure. Only the scheduler uses it.
	retry time.Time
}

// podName is a pod's name, for metrics.
type podName struct{ namespace, name string }

// Driver runs probes.
type Driver struct {
	opts  Options
	log   *slog.Logger
	clock clock.Clock
	rt    runtimeapi.RuntimeServiceClient
	began time.Time // origin of the grid

	mu      sync.Mutex // guards everything below
	pending map[containerKey]*setting
	probes  map[containerKey]map[journaletv1.ProbeKind]*probe
	// containers are the names in pending and probes, by UID, and may be more than those.
	containers map[string]map[string]bool
	names      map[string]podName // by UID, of pods that are or were probed
	due        schedule
	lanes      lanes

	wake    chan struct{} // wakes the scheduler; holds one signal
	workers sync.WaitGroup
}

// New returns a driver. It runs nothing before Run.
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
	if o.HostIPs == nil {
		o.HostIPs = func() []string { return nil }
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Driver{
		opts: o, log: o.Log, clock: o.Clock, rt: runtimeapi.NewRuntimeServiceClient(o.Conn), began: o.Clock.Now(),
		pending: map[containerKey]*setting{}, probes: map[containerKey]map[journaletv1.ProbeKind]*probe{},
		containers: map[string]map[string]bool{},
		names:      map[string]podName{},
		lanes:      lanes{quick: newLane(o.Workers), slow: newLane(o.SlowWorkers)}, wake: make(chan struct{}, 1),
	}
	if d.opts.Go == nil {
		d.opts.Go = d.workers.Go
	}
	return d
}

// Seed adds the probes of a container at the end of the last run of the agent, and their reported results, before Run.
// An equal result is not reported again, and no initial delay is waited for twice.
func (d *Driver) Seed(uid string, set *journaletv1.ProbesSet, results []*journaletv1.ProbeResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.await(containerKey{uid, set.GetContainer()}, &setting{set: set, results: results, seeded: true})
}

// await has a setting wait for its manifest; d.mu is held.
func (d *Driver) await(at containerKey, s *setting) {
	d.pending[at] = s
	if d.containers[at.uid] == nil {
		d.containers[at.uid] = map[string]bool{}
	}
	d.containers[at.uid][at.container] = true
}

// SeedPending adds a result of the journal that the seeded state does not have yet.
func (d *Driver) SeedPending(r *journaletv1.ProbeResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.pending[containerKey{r.GetUid(), r.GetContainer()}]
	if s != nil && s.set.GetContainerId() == r.GetContainerId() {
		s.results = append(s.results, r)
	}
}

// Stored handles a stored record.
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

// set ends removed probes at once. New ones begin when the manifest is read.
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
	d.await(at, next)
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
	for name := range d.containers[uid] {
		delete(d.pending, containerKey{uid, name})
		d.end(containerKey{uid, name})
	}
	delete(d.containers, uid)
	if n, ok := d.names[uid]; ok && d.opts.Forget != nil {
		d.opts.Forget(n.namespace, n.name, uid)
	}
	delete(d.names, uid)
}

// signal wakes the scheduler.
func (d *Driver) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}
