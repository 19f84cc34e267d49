package timer

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// fakeClock is a clock that the test sets.
type fakeClock struct {
	now  time.Time
	arms []*arm
}

type arm struct {
	after   time.Duration
	fire    func()
	stopped bool
}

func (h *fakeClock) Now() time.Time { return h.now }

func (h *fakeClock) AfterFunc(d time.Duration, f func()) func() bool {
	a := &arm{after: d, fire: f}
	h.arms = append(h.arms, a)
	return func() bool { a.stopped = true; return true }
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func set(at time.Time, name string, generation uint64, d time.Duration) *journaletv1.Record {
	return record(at, messages.NewEvent(&journaletv1.TimerSet{
		Name: name, Generation: generation, Duration: durationpb.New(d),
	}))
}

func record(at time.Time, e *journaletv1.Event) *journaletv1.Record {
	return &journaletv1.Record{
		Time: timestamppb.New(at), Actor: messages.Pod("a").Proto(),
		Body: &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: 1, Decisions: []*journaletv1.Event{e}}},
	}
}

func TestFiredTimerIsDropped(t *testing.T) {
	clock := &fakeClock{now: noon}
	d := New(clock, func(messages.Ref, *journaletv1.Event) {})
	for i := range uint64(100) {
		d.Stored(set(noon, fmt.Sprint("pull ", i), i, time.Second))
	}
	for _, a := range clock.arms {
		a.fire()
	}
	if n := d.Armed(); n > 0 {
		t.Errorf("%d timers have fired and are held", n)
	}
	// A timer that fires late leaves its successor armed.
	d.Stored(set(noon, "back-off", 1, time.Second))
	late := clock.arms[100]
	d.Stored(set(noon, "back-off", 2, time.Second))
	late.fire()
	if n := d.Armed(); n != 1 {
		t.Errorf("%d timers are armed, want the second one", n)
	}
}

func TestTimerFiresWithItsGeneration(t *testing.T) {
	clock := &fakeClock{now: noon.Add(time.Second)}
	var fired []*journaletv1.TimerFired
	d := New(clock, func(about messages.Ref, e *journaletv1.Event) {
		if about != messages.Pod("a") {
			t.Errorf("fired for %s", about)
		}
		fired = append(fired, e.GetTimerFired())
	})
	d.Stored(set(noon, "back-off main", 7, 10*time.Second))
	if got := clock.arms[0].after; got != 9*time.Second {
		t.Fatalf("armed for %v, want the rest: 9s", got)
	}
	clock.arms[0].fire()
	if len(fired) != 1 || fired[0].GetName() != "back-off main" || fired[0].GetGeneration() != 7 {
		t.Fatalf("fired %v", fired)
	}
}

func TestClockStepNeverExtendsATimer(t *testing.T) {
	for name, c := range map[string]struct {
		now  time.Time
		want time.Duration
	}{
		"back a day":      {noon.Add(-24 * time.Hour), 10 * time.Second},
		"forward a day":   {noon.Add(24 * time.Hour), 0},
		"no step":         {noon.Add(4 * time.Second), 6 * time.Second},
		"just at the end": {noon.Add(10 * time.Second), 0},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &fakeClock{now: c.now}
			d := New(clock, func(messages.Ref, *journaletv1.Event) {})
			d.Seed(messages.Pod("a"), &journaletv1.Timers{Set: map[string]*journaletv1.Timer{"t": {
				Name: "t", Generation: 1, SetAt: timestamppb.New(noon), Duration: durationpb.New(10 * time.Second),
			}}})
			if len(clock.arms) > 0 {
				t.Fatal("armed before the run's start is recorded")
			}
			d.Begin()
			if got := clock.arms[0].after; got != c.want {
				t.Fatalf("armed for %v, want %v", got, c.want)
			}
		})
	}
}

func TestSeedThatIsSetClearedOrForgottenBeforeBeginIsNotArmed(t *testing.T) {
	clock := &fakeClock{now: noon}
	d := New(clock, func(messages.Ref, *journaletv1.Event) {})
	old := func(names ...string) *journaletv1.Timers {
		all := &journaletv1.Timers{Set: map[string]*journaletv1.Timer{}}
		for _, name := range names {
			all.Set[name] = &journaletv1.Timer{Name: name, Generation: 1, SetAt: timestamppb.New(noon),
				Duration: durationpb.New(time.Hour)}
		}
		return all
	}
	d.Seed(messages.Pod("a"), old("set again", "cleared"))
	d.Seed(messages.Pod("b"), old("of a pod that is forgotten"))
	d.Stored(set(noon, "set again", 2, time.Second))
	cleared := &journaletv1.Event_TimerCleared{TimerCleared: &journaletv1.TimerCleared{Name: "cleared"}}
	d.Stored(record(noon, &journaletv1.Event{Kind: cleared}))
	d.Stored(&journaletv1.Record{Actor: messages.Source("file").Proto(),
		Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
			Decisions: []*journaletv1.Event{{Kind: &journaletv1.Event_PodForgotten{
				PodForgotten: &journaletv1.PodForgotten{Uid: "b"}}}},
		}}})
	d.Begin()
	if len(clock.arms) != 1 || clock.arms[0].after != time.Second || clock.arms[0].stopped {
		t.Fatalf("armed %d timers, want only the one that was set again", len(clock.arms))
	}
}

func TestSeedThatFiredInThePendingRecordsDoesNotFireAgain(t *testing.T) {
	clock := &fakeClock{now: noon}
	d := New(clock, func(messages.Ref, *journaletv1.Event) {})
	d.Seed(messages.Pod("a"), &journaletv1.Timers{Set: map[string]*journaletv1.Timer{
		"fired":     {Name: "fired", Generation: 1, SetAt: timestamppb.New(noon), Duration: durationpb.New(time.Second)},
		"set since": {Name: "set since", Generation: 3, SetAt: timestamppb.New(noon), Duration: durationpb.New(time.Minute)},
	}})
	for name, generation := range map[string]uint64{"fired": 1, "set since": 2} {
		d.SeedPending(&journaletv1.Record{Actor: messages.Pod("a").Proto(),
			Body: &journaletv1.Record_Fact{
				Fact: messages.NewEvent(&journaletv1.TimerFired{Name: name, Generation: generation})}})
	}
	d.Begin()
	if len(clock.arms) != 1 || clock.arms[0].after != time.Minute {
		t.Fatalf("armed %d timers, want only the one that was set again", len(clock.arms))
	}
}

func TestClearedReplacedAndForgottenTimersDoNotFire(t *testing.T) {
	clock := &fakeClock{now: noon}
	d := New(clock, func(messages.Ref, *journaletv1.Event) {})
	d.Stored(set(noon, "cleared", 1, time.Second))
	d.Stored(record(noon, messages.NewEvent(&journaletv1.TimerCleared{Name: "cleared"})))
	d.Stored(set(noon, "replaced", 2, time.Second))
	d.Stored(set(noon, "replaced", 3, time.Minute))
	d.Stored(set(noon, "forgotten", 4, time.Second))
	d.Stored(&journaletv1.Record{Actor: messages.Source("file").Proto(),
		Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
			Decisions: []*journaletv1.Event{{Kind: &journaletv1.Event_PodForgotten{
				PodForgotten: &journaletv1.PodForgotten{Uid: "a"}}}},
		}}})
	for i, a := range clock.arms {
		if !a.stopped {
			t.Errorf("timer %d (%v) still runs", i, a.after)
		}
	}
}
