package pressure

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// Hold is how long no sample may meet a threshold before it ends, and the shortest time between two reports of one
	// that begins to act again. A value that swings around a threshold is one crossing. kubelet: monitoring period, 10 s.
	Hold = 10 * time.Second
)

// Amount is a quantity or a share of the capacity.
type Amount struct {
	// Quantity is in the unit of the signal. It counts unless Percentage is set.
	Quantity int64
	// Percentage is from 0 to 1.
	Percentage float32
}

// Of returns the amount for a capacity.
func (a Amount) Of(capacity int64) int64 {
	if a.Percentage == 0 {
		return a.Quantity
	}
	return int64(float64(capacity) * float64(a.Percentage)) // the kubelet's precision
}

// Threshold is one threshold in effect.
type Threshold struct {
	Signal Signal
	Value  Amount
	// Text is a quantity as the configuration has it; empty for a percentage.
	Text string
	// Soft is set if pods that it ends get a grace period of their own. A signal has one of each kind at most.
	Soft bool
	// Grace is how long a soft threshold is met before it acts.
	Grace time.Duration
	// MinReclaim is what must be available beyond the value before a threshold that acted ends.
	MinReclaim Amount
}

// Measured is one signal of a sample, in its unit.
type Measured struct{ Available, Capacity int64 }

// Highest returns below what level of a signal a threshold is met, or still is, by the capacity; 0 without a threshold.
func Highest(all []Threshold, signal Signal, capacity int64) int64 {
	highest := int64(0)
	for _, t := range all {
		if t.Signal == signal {
			highest = max(highest, t.Value.Of(capacity)+t.MinReclaim.Of(capacity))
		}
	}
	return highest
}

// Sample is what was measured at one time. A signal that could not be measured is missing.
type Sample struct {
	At      time.Time
	Signals map[Signal]Measured
}

// Tracker folds samples. The zero value is not usable; see New.
type Tracker struct {
	thresholds []Threshold
	met        map[key]*state
	reported   map[key]time.Time // of the last fact that had it acting
	last       []*journaletv1.ThresholdMet
}

type key struct {
	signal Signal
	soft   bool
}

type state struct {
	met     *journaletv1.ThresholdMet
	lastMet time.Time // the last sample that met it
	since   time.Time
}

// New returns a tracker that continues where a node stands: before are the thresholds of the last fact. Those that are
// not configured any more are no longer met.
func New(thresholds []Threshold, before []*journaletv1.ThresholdMet) *Tracker {
	t := &Tracker{met: map[key]*state{}, reported: map[key]time.Time{}, last: before}
	t.Configure(thresholds)
	for _, m := range before {
		t.met[keyOf(m)] = &state{
			met: proto.CloneOf(m), lastMet: m.GetSampledAt().AsTime(), since: m.GetSince().AsTime(),
		}
	}
	return t
}

// Configure replaces the thresholds. It keeps what is known of the thresholds that stay.
func (t *Tracker) Configure(thresholds []Threshold) {
	t.thresholds = slices.Clone(thresholds)
	slices.SortStableFunc(t.thresholds, func(a, b Threshold) int {
		return cmp.Or(cmp.Compare(slices.Index(Signals, a.Signal), slices.Index(Signals, b.Signal)),
			cmp.Compare(a.Grace, b.Grace))
	})
}

// WithContainerFS adds the thresholds of containerfs, as copies of nodefs' thresholds (kubelet:
// UpdateContainerFsThresholds). Where writable layers share the file system of images, or everything shares one, the
// thresholds of that file system suffice.
func WithContainerFS(all []Threshold, layout journaletv1.FilesystemLayout) []Threshold {
	out := slices.Clone(all)
	if layout != journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT {
		return out
	}
	for _, t := range all {
		switch t.Signal {
		case NodeFsAvailable:
			t.Signal = ContainerFsAvailable
		case NodeFsInodesFree:
			t.Signal = ContainerFsInodesFree
		default:
			continue
		}
		out = append(out, t)
	}
	return out
}

// Add folds a sample. It returns all thresholds that are met, in the order that the node acts on them, and whether that
// is a crossing: a threshold has begun or ceased to be met, or has begun to act.
func (t *Tracker) Add(s Sample) (met []*journaletv1.ThresholdMet, crossing bool) {
	for i := range t.thresholds {
		c := &t.thresholds[i]
		t.addOne(c, s)
		if m := t.met[key{c.Signal, c.Soft}]; m != nil {
			met = append(met, proto.CloneOf(m.met))
		}
	}
	return met, t.crossing(met, s.At)
}

func (t *Tracker) addOne(c *Threshold, s Sample) {
	k := key{c.Signal, c.Soft}
	m, measured := s.Signals[c.Signal]
	before := t.met[k]
	if !measured {
		if before != nil {
			before.met.Acting = false // nothing ends for what is not measured
			before.lastMet = s.At
		}
		return
	}
	if before != nil { // the clock may have been set back before a restart
		before.lastMet, before.since = earlier(before.lastMet, s.At), earlier(before.since, s.At)
	}
	value := c.Value.Of(m.Capacity)
	limit := value
	if before != nil && before.met.GetReclaiming() {
		limit = min(limit+c.MinReclaim.Of(m.Capacity), max(limit, m.Capacity)) // more than there is would never be there
	}
	if m.Available >= limit {
		switch {
		case before == nil:
		case s.At.Sub(before.lastMet) >= Hold:
			delete(t.met, k)
		default:
			before.update(m, value, s.At)
			before.met.Acting = false
		}
		return
	}
	if before == nil {
		before = &state{
			met: &journaletv1.ThresholdMet{
				Signal: string(c.Signal), Soft: c.Soft, Quantity: c.Text, Since: timestamppb.New(s.At),
			},
			since: s.At,
		}
		t.met[k] = before
	}
	before.update(m, value, s.At)
	before.lastMet = s.At
	before.met.Acting = s.At.Sub(before.since) >= c.Grace
	before.met.Reclaiming = before.met.GetReclaiming() || before.met.GetActing()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (x *state) update(m Measured, value int64, at time.Time) {
	x.met.Threshold, x.met.Available, x.met.Capacity = value, m.Available, m.Capacity
	x.met.SampledAt = timestamppb.New(at)
}

// MaxPause is the longest pause between two samples. A pod above its memory ends within 10 s of the crossing; its grace
// period and its stop take some 3 s of these.
const MaxPause = 5 * time.Second

// Pause returns how long after a sample the next one may be taken: least while a threshold is met or near, up to
// MaxPause where the whole capacity of every signal is left. Signals that are not measured do not count.
func (t *Tracker) Pause(s Sample, least time.Duration) time.Duration {
	share := 1.0
	for _, c := range t.thresholds {
		m, measured := s.Signals[c.Signal]
		if t.met[key{c.Signal, c.Soft}] != nil {
			return least
		}
		if !measured {
			continue
		}
		limit := c.Value.Of(m.Capacity) + c.MinReclaim.Of(m.Capacity)
		if m.Capacity <= limit {
			return least
		}
		share = min(share, float64(m.Available-limit)/float64(m.Capacity-limit))
	}
	return max(least, min(MaxPause, time.Duration(share*float64(MaxPause))).Truncate(least))
}

// crossing reports whether met is to be recorded.
func (t *Tracker) crossing(met []*journaletv1.ThresholdMet, at time.Time) bool {
	if !slices.EqualFunc(met, t.last, func(a, b *journaletv1.ThresholdMet) bool { return keyOf(a) == keyOf(b) }) {
		return true
	}
	for i, m := range met {
		if m.GetActing() && !t.last[i].GetActing() && at.Sub(t.reported[keyOf(m)]) >= Hold {
			return true
		}
	}
	return false
}

func keyOf(m *journaletv1.ThresholdMet) key { return key{Signal(m.GetSignal()), m.GetSoft()} }

// Recorded has the tracker know what a fact has recorded at a time.
func (t *Tracker) Recorded(met []*journaletv1.ThresholdMet, at time.Time) {
	t.last = met
	for _, m := range met {
		if m.GetActing() {
			t.reported[keyOf(m)] = at
		}
	}
}

// Acting returns the first threshold that acts; nil for none.
func Acting(met []*journaletv1.ThresholdMet) *journaletv1.ThresholdMet {
	for _, m := range met {
		if m.GetActing() {
			return m
		}
	}
	return nil
}
