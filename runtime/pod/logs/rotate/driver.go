package rotate

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Options configure a Driver. Dir, Conn and Sink must be set.
type Options struct {
	// Dir is the directory of the pods' logs.
	Dir string
	// Conn reaches the container runtime.
	Conn   grpc.ClientConnInterface
	Policy Policy
	// Interval is the pause between two inspections of the logs (kubelet default: 10 s), Workers how many files are
	// compressed at once (kubelet default: 1), and Timeout the bound of a call of the runtime (default: 2 min).
	Interval time.Duration
	Workers  int
	Timeout  time.Duration
	// Sink receives each rotation, and each failure once until a rotation succeeds.
	Sink func(context.Context, *journaletv1.LogRotated) error
	Now  func() time.Time
	Log  *slog.Logger
}

// Driver rotates the logs of running containers.
type Driver struct {
	opts    Options
	runtime runtimeapi.RuntimeServiceClient
	pack    chan *container

	mu   sync.Mutex
	pods map[string]map[string]*container // by UID, then by id of the container; only running containers
}

// container is a container that runs. The fields above the lock belong to the goroutine of Run.
type container struct {
	uid, name, id string

	below, base string // where its log is; empty: not known yet
	cleaned     bool   // what a crash has left is removed
	failed      bool   // the last rotation failed, and that is reported

	mu         sync.Mutex
	wants      bool // it has files to compress, or what a crash has left
	packing    bool // it is with a worker
	packFailed bool // the last compression failed, and that is reported
}

// New returns a driver that does nothing yet.
func New(o Options) *Driver {
	if o.Interval == 0 {
		o.Interval = 10 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{
		opts: o, runtime: runtimeapi.NewRuntimeServiceClient(o.Conn), pack: make(chan *container, max(1, o.Workers)),
		pods: map[string]map[string]*container{},
	}
}

// Stored handles a stored record: which containers of a pod run.
func (d *Driver) Stored(rec *journaletv1.Record) {
	if o := rec.GetFact().GetPodObserved(); o != nil {
		d.Seed(o)
	}
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetPodFinished(); k != nil {
			d.mu.Lock()
			delete(d.pods, k.GetUid())
			d.mu.Unlock()
		}
	}
}

// Seed sets which containers of a pod run.
func (d *Driver) Seed(o *journaletv1.PodObserved) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, now := d.pods[o.GetUid()], map[string]*container{}
	for _, c := range o.GetContainers() {
		if c.GetState() != journaletv1.ContainerState_CONTAINER_STATE_RUNNING {
			continue
		}
		if now[c.GetId()] = before[c.GetId()]; now[c.GetId()] == nil {
			now[c.GetId()] = &container{uid: o.GetUid(), name: c.GetName(), id: c.GetId()}
		}
	}
	if d.pods[o.GetUid()] = now; len(now) == 0 {
		delete(d.pods, o.GetUid())
	}
}

// running returns the containers that run, in an order that stays the same.
func (d *Driver) running() []*container {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*container
	for _, uid := range slices.Sorted(maps.Keys(d.pods)) {
		for _, id := range slices.Sorted(maps.Keys(d.pods[uid])) {
			all = append(all, d.pods[uid][id])
		}
	}
	return all
}

// runs reports whether a container still runs, as far as it was observed.
func (d *Driver) runs(c *container) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pods[c.uid][c.id] == c
}

// Run rotates until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for range max(1, d.opts.Workers) {
		workers.Go(func() { d.work(ctx) })
	}
	tick := time.NewTicker(d.opts.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			d.Inspect(ctx)
		}
	}
}

// Inspect rotates what has to be rotated now. It hands files over to be compressed as far as workers are free; the rest
// follows with the next inspection.
func (d *Driver) Inspect(ctx context.Context) {
	for _, c := range d.running() {
		if ctx.Err() != nil {
			return
		}
		if err := d.inspect(ctx, c); err != nil {
			d.opts.Log.Debug("the runtime does not answer; logs are rotated later", "error", err)
			return
		}
		if c.wantsPacking() {
			select {
			case d.pack <- c:
			default:
				c.release()
			}
		}
	}
}

// work compresses files.
func (d *Driver) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-d.pack:
			d.compressAll(ctx, c)
			c.release()
		}
	}
}

// report records an outcome. What cannot be recorded is only logged: the journal fails before this does.
func (d *Driver) report(ctx context.Context, c *container, bytes int64, failed error) {
	fact := &journaletv1.LogRotated{Uid: c.uid, Container: c.name, ContainerId: c.id, Bytes: bytes}
	if failed != nil {
		fact.Message = failed.Error()
	}
	if err := d.opts.Sink(ctx, fact); err != nil && ctx.Err() == nil {
		d.opts.Log.Warn("cannot record a rotated log", "container", c.id, "error", err)
	}
}
