package timer

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
)

// Fire records that a timer fired.
type Fire func(about messages.Ref, e *journaletv1.Event)

type key struct {
	ref  messages.Ref
	name string
}

// Driver holds the timers that are set, at most one for each actor and name. Each is only an entry in the Go runtime's
// timer heap.
type Driver struct {
	clock clock.Clock
	fire  Fire

	mu     sync.Mutex
	timers map[messages.Ref]map[string]*armed // by name; no actor without one
	seeds  []seed                             // none after Begin
	closed bool
}

// armed is a timer that has neither fired nor been stopped.
type armed struct{ stop func() bool }

// seed is a timer of an earlier run that is not armed yet.
type seed struct {
	key
	set *journaletv1.Timer
}

// New returns a driver without timers.
func New(c clock.Clock, fire Fire) *Driver {
	return &Driver{clock: c, fire: fire, timers: map[messages.Ref]map[string]*armed{}}
}

// Seed adds the timers of an actor's folded state, sorted by name because a simulation needs a fixed order. Begin arms
// them.
func (d *Driver) Seed(ref messages.Ref, set *journaletv1.Timers) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(set.GetSet())) {
		d.seeds = append(d.seeds, seed{key{ref, name}, set.GetSet()[name]})
	}
}

// SeedPending drops a seed that has fired according to a record that its actor has not handled yet.
func (d *Driver) SeedPending(rec *journaletv1.Record) {
	fired := rec.GetFact().GetTimerFired()
	if fired == nil {
		return
	}
	k := key{messages.RefOf(rec.GetActor()), fired.GetName()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seeds = slices.DeleteFunc(d.seeds, func(s seed) bool {
		return s.key == k && s.set.GetGeneration() == fired.GetGeneration()
	})
}

// Begin arms the seeds that no decision has set or cleared since. Call it after the record of the run's start: no actor
// receives a timer that fires before.
func (d *Driver) Begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	seeds := d.seeds
	d.seeds = nil
	for _, s := range seeds {
		d.arm(s.ref, s.name, s.set.GetGeneration(), s.set.GetSetAt().AsTime(), s.set.GetDuration().AsDuration())
	}
}

// Stored sets and clears the timers of a stored record.
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

// arm sets a timer for the rest of its duration, between 0 and the duration, even if the clock has stepped. The lock is
// held.
func (d *Driver) arm(ref messages.Ref, name string, generation uint64, from time.Time, after time.Duration) {
	left := min(max(from.Add(after).Sub(d.clock.Now()), 0), after)
	k := key{ref, name}
	if d.closed {
		return
	}
	d.dropSeeds(func(x key) bool { return x == k })
	if t := d.timers[ref][name]; t != nil {
		t.stop()
	}
	t := &armed{}
	if d.timers[ref] == nil {
		d.timers[ref] = map[string]*armed{}
	}
	d.timers[ref][name] = t
	t.stop = d.clock.AfterFunc(left, func() {
		d.drop(k, t)
		d.fire(ref, messages.NewEvent(&journaletv1.TimerFired{Name: name, Generation: generation}))
	})
}

// drop drops a timer that fires, unless another one has its name by now.
func (d *Driver) drop(k key, t *armed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timers[k.ref][k.name] == t {
		d.remove(k)
	}
}

// remove removes a timer that has fired or was stopped. The lock is held.
func (d *Driver) remove(k key) {
	delete(d.timers[k.ref], k.name)
	if len(d.timers[k.ref]) == 0 {
		delete(d.timers, k.ref)
	}
}

func (d *Driver) disarm(k key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropSeeds(func(x key) bool { return x == k })
	if t := d.timers[k.ref][k.name]; t != nil {
		t.stop()
		d.remove(k)
	}
}

// dropSeeds drops seeds. The lock is held.
func (d *Driver) dropSeeds(drop func(key) bool) {
	d.seeds = slices.DeleteFunc(d.seeds, func(s seed) bool { return drop(s.key) })
}

func (d *Driver) forget(ref messages.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropSeeds(func(x key) bool { return x.ref == ref })
	for _, t := range d.timers[ref] {
		t.stop()
	}
	delete(d.timers, ref)
}

// Armed returns the number of timers that are held.
func (d *Driver) Armed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, byName := range d.timers {
		n += len(byName)
	}
	return n
}

// Close stops all timers; none is set afterwards.
func (d *Driver) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, byName := range d.timers {
		for _, t := range byName {
			t.stop()
		}
	}
	clear(d.timers)
}
