package storage

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// Period is the pause between two measurements of one pod (kubelet: eviction monitoring period).
	Period = 10 * time.Second
	// share is the part of one core that all walks together take, in the long run.
	share = 0.03
	// burst is how long walks may take before that bound slows them down: a period's share. The trees of a usual node are
	// walked within it.
	burst = 300 * time.Millisecond
	// retryPause is the pause after a manifest could not be read.
	retryPause = time.Second
)

// Options configure a Driver. All but CSI, NoLimits, Period and Log must be set.
type Options struct {
	// Conn reaches the container runtime.
	Conn grpc.ClientConnInterface
	// Manifest returns a manifest by its digest.
	Manifest func(ctx context.Context, digest string) (*corev1.Pod, error)
	// PodDir returns the directory of a pod, Path the directory of one of its volumes, PodLogDir the directory of its
	// logs.
	PodDir    func(uid string) string
	Path      func(pod *corev1.Pod, volume string) (string, error)
	PodLogDir func(namespace, name, uid string) string
	// CSI has the driver of a volume measure it, which is no part of a limit. Nil: this node has none.
	CSI func(ctx context.Context, uid, volume string) (Measured, error)
	// Sink receives the first limit that a pod exceeds. After an error it is reported again.
	Sink func(context.Context, *journaletv1.StorageExceeded) error
	// NoLimits enforces none: a pod is measured only when somebody asks.
	NoLimits bool
	// Period defaults to the constant of this name.
	Period time.Duration
	Log    *slog.Logger
}

// Driver measures pods that have limits, each on a goroutine of its own: a file system that hangs holds up no other
// pod. Walks share a bounded part of one core. A pod without limits costs nothing.
type Driver struct {
	opts    Options
	runtime cri.RuntimeServiceClient
	images  cri.ImageServiceClient
	walks   *rate.Limiter // in microseconds
	wake    chan struct{}
	// answers are measurements of volumes whose servers may be away.
	answers bounded.Answers

	mu   sync.Mutex
	pods map[string]*pod // by UID
	// provided has the places that the runtime has provided, by the pod's UID and the container's id.
	provided map[string]map[string][]providedPlace
	// imageDir is where the runtime keeps images; empty: not known yet.
	imageDir string
}

// pod is a pod that has begun to run.
type pod struct {
	uid, digest string
	running     bool // its goroutine has begun
	stop        context.CancelFunc
	// failed is the last error that was logged.
	failed string
}

// New returns a driver. It measures nothing yet.
func New(o Options) *Driver {
	if o.Period == 0 {
		o.Period = Period
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{
		opts: o, runtime: cri.NewRuntimeServiceClient(o.Conn), images: cri.NewImageServiceClient(o.Conn),
		walks: rate.NewLimiter(rate.Limit(share*1e6), int(burst.Microseconds())),
		wake:  make(chan struct{}, 1), pods: map[string]*pod{}, provided: map[string]map[string][]providedPlace{},
	}
}

// Seed adds a pod that the journal has as running.
func (d *Driver) Seed(uid, digest string) { d.add(uid, digest) }

// SeedPending handles a record of the journal that the pod has not handled yet.
func (d *Driver) SeedPending(rec *journaletv1.Record) {
	if uid := rec.GetFact().GetStorageExceeded().GetUid(); uid != "" {
		d.forget(uid)
	}
}

// Stored handles a stored record: a pod is measured from the request for its sandbox until it has terminated.
func (d *Driver) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_CallRequested:
			if s := k.CallRequested.GetRunSandbox(); s != nil {
				d.add(k.CallRequested.GetPodUid(), s.GetDigest())
			}
		case *journaletv1.Event_PodTerminating:
			d.forget(messages.RefOf(rec.GetActor()).ID)
		case *journaletv1.Event_PodTerminated:
			d.forget(k.PodTerminated.GetUid())
		case *journaletv1.Event_PodFinished:
			d.forget(k.PodFinished.GetUid())
		case *journaletv1.Event_PodForgotten:
			d.forget(k.PodForgotten.GetUid())
		}
	}
}

// add begins to measure a pod. One that is measured already stays so: no update changes its limits.
func (d *Driver) add(uid, digest string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pods[uid] != nil || d.opts.NoLimits {
		return
	}
	d.pods[uid] = &pod{uid: uid, digest: digest}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *Driver) forget(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.pods[uid]; p != nil && p.stop != nil {
		p.stop()
	}
	delete(d.pods, uid)
	delete(d.provided, uid)
}

// Run measures until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for {
		for _, p := range d.begin(ctx) {
			all.Go(p)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.wake:
		}
	}
}

// begin returns what measures the pods that are not measured yet.
func (d *Driver) begin(ctx context.Context) []func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []func()
	for _, p := range d.pods {
		if p.running {
			continue
		}
		cancelable, stop := context.WithCancel(ctx)
		p.running, p.stop = true, stop
		out = append(out, func() {
			defer stop()
			d.measure(cancelable, p)
		})
	}
	return out
}

// measure measures one pod every period, until it exceeds a limit.
func (d *Driver) measure(ctx context.Context, p *pod) {
	var manifest *corev1.Pod
	for manifest == nil {
		var err error
		if manifest, err = d.opts.Manifest(ctx, p.digest); err != nil {
			d.failed(ctx, p, err)
			if !wait(ctx, retryPause) {
				return
			}
		}
	}
	limits := LimitsOf(manifest)
	if limits.None() {
		return
	}
	for wait(ctx, d.opts.Period) {
		s, err := d.sample(ctx, manifest, &limits)
		if ctx.Err() != nil {
			return
		}
		d.failed(ctx, p, err)
		// What was measured before an error is less than what is in use.
		if over := Exceeded(p.uid, &limits, s); over != nil && d.opts.Sink(ctx, over) == nil {
			return
		}
	}
}

// failed logs an error, once until it changes.
func (d *Driver) failed(ctx context.Context, p *pod, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != p.failed && ctx.Err() == nil {
		d.opts.Log.Warn("cannot measure all of a pod's ephemeral storage; its limits count for the rest",
			"pod", p.uid, "error", err)
	}
	p.failed = text
}

// wait waits, and reports whether ctx still runs.
func wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}
