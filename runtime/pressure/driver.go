package pressure

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// Period is the least pause between two samples (pressure.Tracker.Pause).
	Period = time.Second
	// UsageTimeout bounds the measurement of pods.
	UsageTimeout = 10 * time.Second
)

// Measurement is one sample, and where the runtime has its file systems.
type Measurement struct {
	Signals map[pressure.Signal]pressure.Measured
	Layout  journaletv1.FilesystemLayout
}

// Options configure a Driver. Measure, Usage and Sink must be set.
type Options struct {
	// Thresholds are the configured thresholds.
	Thresholds []pressure.Threshold
	// Measure measures the signals. It must not hang.
	Measure func(context.Context) Measurement
	// Usage measures the pods that have a sandbox, by UID, for a signal that acts.
	Usage func(context.Context, pressure.Signal) []*journaletv1.PodUsage
	// Sink records facts about the node.
	Sink func(context.Context, *journaletv1.Event) error
	// Period defaults to the constant of its name.
	Period time.Duration
	// Now is the clock of samples.
	Now func() time.Time
	Log *slog.Logger
}

// Driver samples. Stored may be called at any time.
type Driver struct {
	opts    Options
	tracker *pressure.Tracker
	layout  journaletv1.FilesystemLayout
	ignored map[pressure.Signal]bool
	pause   time.Duration
	wake    chan struct{}

	mu sync.Mutex
	// requested is the newest request of the node, answered the last request that a fact has answered.
	requested, answered uint64
}

// New returns a driver that measures nothing yet.
func New(o Options) *Driver {
	if o.Period == 0 {
		o.Period = Period
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Driver{opts: o, pause: o.Period, ignored: map[pressure.Signal]bool{}, wake: make(chan struct{}, 1)}
	d.tracker = pressure.New(o.Thresholds, nil)
	return d
}

// Seed gives the driver what the node knows. It is called before Run.
func (d *Driver) Seed(p *journaletv1.NodePressure) {
	d.seed(p.GetThresholds())
	d.requested, d.answered = p.GetRequestId(), p.GetRequestId()
	switch p.GetStage() {
	case journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMED, journaletv1.EvictionStage_EVICTION_STAGE_SETTLING,
		journaletv1.EvictionStage_EVICTION_STAGE_MEASURING:
		d.answered-- // the last one has no answer, or a second one does no harm
	default:
	}
}

// SeedPending handles a record that the node has not handled yet.
func (d *Driver) SeedPending(rec *journaletv1.Record) {
	if o := rec.GetFact().GetPressureObserved(); o != nil {
		d.seed(o.GetThresholds())
		d.answered = max(d.answered, o.GetRequestId())
	}
}

// seed continues with thresholds that were met. Until the runtime has named its file systems, the thresholds of
// containerfs count if one of them is met.
func (d *Driver) seed(met []*journaletv1.ThresholdMet) {
	thresholds := d.opts.Thresholds
	if slices.ContainsFunc(met, func(m *journaletv1.ThresholdMet) bool {
		return strings.HasPrefix(m.GetSignal(), "containerfs.")
	}) {
		thresholds = pressure.WithContainerFS(thresholds, journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT)
	}
	d.tracker = pressure.New(thresholds, met)
}

// Stored handles a stored record: the node may have requested a measurement.
func (d *Driver) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		if id := e.GetEvictionProgressed().GetRequestId(); id != 0 {
			d.mu.Lock()
			d.requested = max(d.requested, id)
			d.mu.Unlock()
			select {
			case d.wake <- struct{}{}:
			default:
			}
		}
	}
}

// Run samples until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := d.Sample(ctx); err != nil && ctx.Err() == nil {
			d.opts.Log.Warn("pressure on the node was not recorded; it is measured again", "error", err)
		}
		timer.Reset(d.pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-d.wake:
		}
	}
}

// Pause returns how long Run waits for the next sample.
func (d *Driver) Pause() time.Duration { return d.pause }

// Sample measures once, and records what is to be recorded. Run calls it.
func (d *Driver) Sample(ctx context.Context) error {
	d.mu.Lock()
	request := d.requested
	if request == d.answered {
		request = 0
	}
	d.mu.Unlock()
	m := d.opts.Measure(ctx)
	d.arrange(m)
	at := d.opts.Now()
	sample := pressure.Sample{At: at, Signals: m.Signals}
	met, crossing := d.tracker.Add(sample)
	d.pause = d.tracker.Pause(sample, d.opts.Period)
	if !crossing && request == 0 {
		return nil
	}
	fact := &journaletv1.PressureObserved{Thresholds: met, Layout: d.layout, RequestId: request}
	if acts := pressure.Acting(met); acts != nil {
		wait, cancel := context.WithTimeout(ctx, UsageTimeout)
		fact.Pods = d.opts.Usage(wait, pressure.Signal(acts.GetSignal()))
		cancel()
	}
	if err := d.opts.Sink(ctx, messages.NewEvent(fact)); err != nil {
		return err
	}
	d.tracker.Recorded(met, at)
	if request != 0 {
		d.mu.Lock()
		d.answered = request
		d.mu.Unlock()
	}
	return nil
}

// arrange adapts the thresholds to the file systems, and leaves out what would always be met.
func (d *Driver) arrange(m Measurement) {
	if m.Layout != 0 && m.Layout != d.layout {
		d.layout = m.Layout
		d.tracker.Configure(pressure.WithContainerFS(d.opts.Thresholds, m.Layout))
	}
	for _, t := range d.opts.Thresholds {
		amount, measured := m.Signals[t.Signal]
		if !measured || t.Value.Of(amount.Capacity) <= amount.Capacity || amount.Capacity <= 0 {
			continue
		}
		if !d.ignored[t.Signal] {
			d.ignored[t.Signal] = true
			d.opts.Log.Error("an eviction threshold is above the capacity and would always be met; its signal is ignored",
				"signal", t.Signal, "threshold", fmt.Sprint(t.Value.Of(amount.Capacity)), "capacity", amount.Capacity)
		}
	}
	for signal := range d.ignored {
		delete(m.Signals, signal)
	}
}
