package node

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	decider "github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// firstRetry and maxRetry are the back-off of a registration (kubelet: 100 ms, doubling to 7 s).
	firstRetry = 100 * time.Millisecond
	maxRetry   = 7 * time.Second
	// deletedFor is how long a Node is deleted before it is created again: the control plane removes what belonged to
	// it, and who deleted it to move its name has a moment to stop the agent.
	deletedFor = 10 * time.Second
	// statusTries are the attempts of one status (kubelet: 5).
	statusTries = 5
)

// Options configure a Driver.
type Options struct {
	Client *client.Client
	// Requests are what is requested of the API server; nil: by Client.
	Requests Requests
	Settings Settings
	// BootID is the machine's: a shutdown of an earlier boot is over.
	BootID string
	// Register creates a Node that does not exist; RegisterDeleted also a Node that was deleted during this run.
	Register, RegisterDeleted bool
	// Update is the shortest interval between two statuses for what is not urgent, Report the longest between two
	// although nothing has changed, Lease the duration of the Lease.
	Update, Report, Lease time.Duration
	// Runtime inspects the container runtime.
	Runtime func(context.Context) Runtime
	// Sink records NodeObserved and NodeRegistered.
	Sink func(context.Context, proto.Message) error
	// Emit emits an event of the Node: its reason and message, both the kubelet's.
	Emit func(reason, message string)
	// Startup is reported how long the start of a Node took that this run has created; it may be nil.
	Startup func(Startup)
	Now     func() time.Time
	// Monotonic is for intervals: it does not follow when the clock is set. Nil: Now, since Go's times have both.
	Monotonic func() time.Time
	// Random returns numbers from 0 to 1.
	Random func() float64
	Log    *slog.Logger
}

// Driver keeps one Node. Stored and Seed may be called at any time.
type Driver struct {
	opts Options
	wake chan struct{}
	// known is closed when a Node was shown.
	known chan struct{}
	once  sync.Once
	// hasCSINode is closed when the CSINode exists.
	hasCSINode  chan struct{}
	onceCreated sync.Once

	mu sync.Mutex
	// node is the newest Node that the API server has shown; nil: no Node exists, as far as synced.
	node   *corev1.Node
	synced bool
	// urgent means that the status is compared at once, lazy that it is before long.
	urgent, lazy bool
	// inspect means that the runtime is to be inspected again; inspected is when it was, by the monotonic clock.
	inspect   bool
	inspected time.Time
	world     World

	// observed is what was recorded last; stored is what is stored of that, which other drivers have seen or see next.
	observed *journaletv1.NodeObserved
	stored   *journaletv1.NodeObserved
	// requested is the newest request to read the Node that has no answer; 0: none.
	requested uint64
	// recovered is the Node that the journal had at the start.
	recovered  types.UID
	registered types.UID
	gone       time.Time     // since when there is no Node, after there was one
	deletedUID types.UID     // of that one
	sent       time.Time     // of the last status
	delay      time.Duration // of the next report without a change
	failures   int
	startup    Startup
	// unschedulable is spec.unschedulable of the Node as it was shown last.
	unschedulable bool
	others        others
}

// New returns a driver that does nothing until Run.
func New(o Options) *Driver {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Monotonic == nil {
		o.Monotonic = o.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Emit == nil {
		o.Emit = func(string, string) {}
	}
	return &Driver{
		opts: o, wake: make(chan struct{}, 1), known: make(chan struct{}), hasCSINode: make(chan struct{}),
		urgent: true, inspect: true, world: World{NoCSINode: true}, startup: Startup{Started: o.Now()},
	}
}

// Seed gives the driver what was recorded last of the Node and of a shutdown.
func (d *Driver) Seed(last *journaletv1.NodeObserved, shuttingDown bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last != nil {
		d.observed, d.stored = withoutAnswer(last), last
		d.recovered = types.UID(last.GetUid())
	}
	d.world.ShuttingDown = d.world.ShuttingDown || shuttingDown
}

// SeedPressure gives the driver the conditions that the node has decided last.
func (d *Driver) SeedPressure(conditions []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.world.Pressure = conditions
}

// SeedDevices gives the driver what device plugins offer, as the node has decided last.
func (d *Driver) SeedDevices(all map[string]*journaletv1.DeviceResource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, r := range all {
		d.world.Devices = with(d.world.Devices, name, Devices{r.GetCapacity(), r.GetAllocatable()})
	}
}

// PodsListed takes why the list of the node's pods may lack some; nil: it lacks none. The Ready condition says so.
func (d *Driver) PodsListed(incomplete error) {
	message := ""
	if incomplete != nil {
		message = incomplete.Error()
	}
	d.change(func() {
		d.urgent = d.urgent || d.world.PodsIncomplete != message
		d.world.PodsIncomplete = message
	})
}

// with returns a copy of what device plugins offer with one resource more, or another amount of it.
func with(all map[string]Devices, name string, devices Devices) map[string]Devices {
	all = maps.Clone(all)
	if all == nil {
		all = map[string]Devices{}
	}
	all[name] = devices
	return all
}

// Stored registers a stored record.
func (d *Driver) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetNodeReadRequested(); k != nil {
			d.change(func() { d.requested = max(d.requested, k.GetRequestId()) })
		}
		if k := e.GetNodePressureDecided(); k != nil {
			d.change(func() { d.world.Pressure, d.urgent = k.GetConditions(), true })
		}
		if k := e.GetDeviceCapacityDecided(); k != nil {
			d.change(func() {
				d.world.Devices = with(d.world.Devices, k.GetResource(), Devices{k.GetCapacity(), k.GetAllocatable()})
				d.urgent = true
			})
		}
	}
	switch k := rec.GetFact().GetKind().(type) {
	case *journaletv1.Event_RuntimeHealthChanged:
		d.change(func() { d.inspect, d.urgent = true, true })
	case *journaletv1.Event_ShutdownSignaled:
		d.change(func() { d.world.ShuttingDown, d.urgent = k.ShutdownSignaled.GetActive(), true })
	case *journaletv1.Event_NodeObserved:
		d.mu.Lock()
		d.stored = k.NodeObserved
		d.mu.Unlock()
	case *journaletv1.Event_ImagesObserved:
		d.change(func() { d.inspect, d.lazy = true, true })
	}
}

// change changes the driver's state and wakes it.
func (d *Driver) change(f func()) {
	d.mu.Lock()
	f()
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run keeps the Node, its CSINode and its Lease until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	watch, err := client.ListWatch(d.opts.Client, client.Nodes, "", "metadata.name="+d.opts.Settings.Name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { d.keepLease(ctx) })
	wg.Go(func() {
		d.opts.Client.Follow(ctx, watch, &corev1.Node{}, (*store)(d), client.Following{
			Reflector: cache.ReflectorOptions{Name: "node"},
		})
	})
	wg.Go(func() { d.keepCSINode(ctx) })
	retry := time.Duration(0)
	for {
		wait, err := d.Step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			retry = min(max(2*retry, firstRetry), maxRetry)
			wait = retry
			d.opts.Log.Debug("the Node is not up to date", "error", client.Message(err), "again in", wait)
		} else {
			retry = 0
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-d.wake:
			if err != nil { // the back-off holds
				select {
				case <-ctx.Done():
				case <-timer.C:
				}
			}
		}
		timer.Stop()
	}
}

// Step does what is due for the Node, and returns how long nothing is. Run calls it; a simulation calls it, Renew and
// CSINode instead of Run.
func (d *Driver) Step(ctx context.Context) (time.Duration, error) {
	if err := d.answer(ctx); err != nil {
		return 0, err
	}
	if err := d.record(ctx, 0, ""); err != nil {
		return 0, err
	}
	d.inspectRuntime(ctx)
	current, wait := d.current()
	if current == nil {
		if wait > 0 {
			return wait, nil
		}
		return 0, d.register(ctx)
	}
	if current.UID != d.registered {
		if err := d.adopt(ctx, current); err != nil {
			return 0, err
		}
		return 0, nil
	}
	wait, err := d.status(ctx, current)
	return d.untilInspection(wait), err
}

// current returns the Node, or how long to wait before it is created; a wait of 0 without a Node: create it now.
func (d *Driver) current() (*corev1.Node, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.node != nil:
		return d.node, 0
	case d.registered == "" && (d.opts.Register || !d.synced):
		if !d.opts.Register {
			return nil, d.opts.Update // the watch shows it
		}
		return nil, 0
	case !d.opts.Register || d.registered != "" && !d.opts.RegisterDeleted:
		return nil, d.opts.Report
	}
	if left := d.gone.Add(deletedFor).Sub(d.opts.Monotonic()); left > 0 {
		return nil, left
	}
	return nil, 0
}

// status sends the status if it differs or a report is due.
func (d *Driver) status(ctx context.Context, current *corev1.Node) (time.Duration, error) {
	now := d.opts.Monotonic()
	d.mu.Lock()
	urgent, lazy, world := d.urgent, d.lazy, d.world
	due := d.sent.Add(d.opts.Report + d.delay)
	soon := d.sent.Add(d.opts.Update)
	switch {
	case urgent || !now.Before(due):
	case lazy && now.Before(soon):
		d.mu.Unlock()
		return soon.Sub(now), nil
	case !lazy:
		d.mu.Unlock()
		return due.Sub(now), nil
	}
	d.urgent, d.lazy = false, false
	d.mu.Unlock()
	if err := d.send(ctx, current, &world, !now.Before(due)); err != nil {
		d.change(func() { d.urgent = d.urgent || urgent; d.lazy = true })
		return 0, err
	}
	return 0, nil
}

// send patches the status. The first attempt compares with what the watch has shown, later ones with a live GET.
func (d *Driver) send(ctx context.Context, base *corev1.Node, w *World, report bool) error {
	var err error
	for try := range statusTries {
		if try > 0 {
			if base, err = d.requests().Node(ctx); err != nil {
				continue
			}
		}
		now, at := d.opts.Now(), d.opts.Monotonic()
		var changed, again bool
		if changed, again, err = d.attempt(ctx, base, w, now, report); err == nil {
			if changed || report {
				d.reported(at, changed)
			}
			return nil
		}
		if !again || apierrors.IsNotFound(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// attempt patches a Node once, if its status differs or report is set. changed: it differed; again: an error is one of
// a request, which may be repeated.
func (d *Driver) attempt(ctx context.Context, base *corev1.Node, w *World, now time.Time, report bool) (
	changed, again bool, err error,
) {
	desired := base.DeepCopy()
	desired.Annotations = maps.Clone(base.Annotations)
	setStatus(desired, &d.opts.Settings, w, now)
	diff, err := compare(base, desired)
	if err != nil {
		return false, false, err
	}
	changed = !diff.empty()
	if !changed && !report {
		return false, false, nil
	}
	heartbeat(&desired.Status, now)
	if diff, err = compare(base, desired); err != nil || diff.empty() {
		return changed, false, err // a heartbeat of the same second says nothing new
	}
	got, err := d.write(ctx, diff)
	if err != nil {
		return changed, true, err
	}
	d.emitConditions(base.Status.Conditions, desired.Status.Conditions)
	d.show(got)
	d.becameReady(&desired.Status)
	return changed, false, nil
}

// reported registers a status that was sent. The next one without a change comes after 50 to 150 % of the interval if
// something had changed, else after the interval: nodes that change at once do not report at once (kubelet: the same).
func (d *Driver) reported(at time.Time, changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sent, d.delay = at, 0; changed {
		d.delay = time.Duration(float64(d.opts.Report) * (d.opts.Random() - 0.5))
	}
}

// record records what concerns admission, if it has changed, or as the answer to a request; failure is why the Node
// could not be read for it.
func (d *Driver) record(ctx context.Context, request uint64, failure string) error {
	d.mu.Lock()
	now := observation(d.node)
	if d.node != nil {
		now.OtherMachine = d.others.present(d.opts.Monotonic())
	}
	if foreign(d.node, &d.opts.Settings.Machine) {
		now.Ips = d.observed.GetIps() // the addresses in its status are not this machine's
	}
	if failure != "" {
		now = withoutAnswer(d.observed)
	}
	known := d.node != nil || d.synced || request > 0
	same := d.observed != nil && proto.Equal(now, d.observed)
	before := d.observed.GetOtherMachine()
	d.mu.Unlock()
	if !known || same && request == 0 {
		return nil
	}
	if o := now.GetOtherMachine(); o != nil && !proto.Equal(o, before) {
		d.opts.Log.Warn("another machine reports itself as this Node, too: its pods run twice; stop its agent, or give one "+
			"of the two another name with --hostname-override", "node", d.opts.Settings.Name, "machine ID", o.GetMachineId(),
			"boot ID", o.GetBootId(), "address", o.GetAddress())
	}
	if _, err := decider.PodCIDR(now.GetPodCidrs()); err != nil {
		d.opts.Log.Warn("spec.podCIDRs of the Node is not passed on to the runtime, which keeps what it has; correct it",
			"node", d.opts.Settings.Name, "err", err)
	}
	fact := now
	if request > 0 {
		fact = proto.CloneOf(now)
		fact.RequestId, fact.Failure = request, failure
	}
	if err := d.opts.Sink(ctx, fact); err != nil {
		return err
	}
	if failure == "" {
		d.mu.Lock()
		d.observed = now
		d.mu.Unlock()
	}
	return nil
}

// Node returns the Node that the API server has shown last; nil: no Node exists. The caller must not change it.
func (d *Driver) Node() *corev1.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.node
}
