package timer

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Clock is time as the driver needs it.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once after d, unless stop is called before.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Wall is the machine's clock.
type Wall struct{}

// Now is the time of day.
func (Wall) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (Wall) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// Fire records that a timer fired.
type Fire func(about messages.Ref, e *journaletv1.Event)

type key struct {
	ref  messages.Ref
	name string
}

// Driver keeps the timers that are set: at most one a name and actor, each an entry in the Go
// runtime's own timer heap and nothing more.
type Driver struct {
	clock Clock
	fire  Fire

	mu     sync.Mutex
	timers map[key]func() bool
	seeds  []seed
	closed bool
}

// seed is a timer of an earlier run that is still to be armed.
type seed struct {
	key
	set *journaletv1.Timer
}

// New makes a driver without any timer.
func New(clock Clock, fire Fire) *Driver {
	return &Driver{clock: clock, fire: fire, timers: map[key]func() bool{}}
}

// Seed takes in the timers that an actor's state holds, after a start, in order of their names: a simulation wants one order.
// They wait for Begin.
func (d *Driver) Seed(ref messages.Ref, set *journaletv1.Timers) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(set.GetSet())) {
		d.seeds = append(d.seeds, seed{key{ref, name}, set.GetSet()[name]})
	}
}

// SeedPending drops a seed that a record tells to have fired which its actor will hear of, or has heard of without a step.
func (d *Driver) SeedPending(rec *journaletv1.Record) {
	fired := rec.GetFact().GetTimerFired()
	if fired == nil {
		return
	}
	k := key{messages.RefOf(rec.GetActor()), fired.GetName()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seeds = slices.DeleteFunc(d.seeds, func(s seed) bool { return s.key == k && s.set.GetGeneration() == fired.GetGeneration() })
}

// Begin arms what Seed took in and nothing has set or cleared since. It comes after the record of the run's start: what fires
// before that is heard by no actor, and would be missing in what the actor handled.
func (d *Driver) Begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range slices.Clone(d.seeds) {
		d.arm(s.ref, s.name, s.set.GetGeneration(), s.set.GetSetAt().AsTime(), s.set.GetDuration().AsDuration())
	}
}

// Stored takes note of a stored record.
func (d *Driver) Stored(rec *journaletv1.Record) {
	ref := messages.RefOf(rec.GetActor())
	for _, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_TimerSet:
			t := k.TimerSet
			d.set(ref, t.GetName(), t.GetGeneration(), rec.GetTime().AsTime(), t.GetDuration().AsDuration())
		case *journaletv1.Event_TimerCleared:
			d.disarm(key{ref, k.TimerCleared.GetName()})
		case *journaletv1.Event_PodForgotten:
			d.forget(messages.Pod(k.PodForgotten.GetUid()))
		}
	}
}

func (d *Driver) set(ref messages.Ref, name string, generation uint64, from time.Time, after time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arm(ref, name, generation, from, after)
}

// arm sets a timer for what is left of its duration: never less than nothing, and, whatever the
// clock did since, never more than the duration. The lock is held.
func (d *Driver) arm(ref messages.Ref, name string, generation uint64, from time.Time, after time.Duration) {
	left := min(max(from.Add(after).Sub(d.clock.Now()), 0), after)
	k := key{ref, name}
	if d.closed {
		return
	}
	d.unseed(func(x key) bool { return x == k })
	if stop := d.timers[k]; stop != nil {
		stop()
	}
	d.timers[k] = d.clock.AfterFunc(left, func() {
		d.fire(ref, &journaletv1.Event{Kind: &journaletv1.Event_TimerFired{
			TimerFired: &journaletv1.TimerFired{Name: name, Generation: generation},
		}})
	})
}

func (d *Driver) disarm(k key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unseed(func(x key) bool { return x == k })
	if stop := d.timers[k]; stop != nil {
		stop()
		delete(d.timers, k)
	}
}

// unseed drops seeds. The lock is held.
func (d *Driver) unseed(drop func(key) bool) {
	d.seeds = slices.DeleteFunc(d.seeds, func(s seed) bool { return drop(s.key) })
}

func (d *Driver) forget(ref messages.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unseed(func(x key) bool { return x.ref == ref })
	for k, stop := range d.timers {
		if k.ref == ref {
			stop()
			delete(d.timers, k)
		}
	}
}

// Close stops every timer; none is set after it.
func (d *Driver) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, stop := range d.timers {
		stop()
	}
	clear(d.timers)
}
