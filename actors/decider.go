package actors

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Event is one event as an actor folds it.
type Event struct {
	// ID is the decision's id; empty for a fact.
	ID string
	// Seq is the number of the record that the actor handles. A decision of its own has its cause's number.
	Seq uint64
	// Time is the event's own time. A decision of its own has its cause's time.
	Time time.Time
	// Author is the actor that decided it. For a fact it is the actor that the fact is about.
	Author messages.Ref
	// Body is the event. It is shared and must not be changed.
	Body *journaletv1.Event
	// Manifest is the manifest whose digest is in Body, with defaults; nil if Body has no digest. It is shared and must
	// not be changed.
	Manifest *corev1.Pod
}

// Input is one record, as far as it concerns one actor.
type Input struct {
	Seq    uint64
	Time   time.Time
	Events []Event
}

// Emit adds a decision to the current step and folds it at once, so that later decisions see it. It does not return if
// the state does not allow the decision, which only a bug can bring about: Decide ends there.
type Emit func(*journaletv1.Event)

// Decider is one actor's logic and its state.
type Decider interface {
	// Evolve folds one event. The same events in the same order give the same state, whatever version wrote them. An
	// error is always an *IllegalError: the state does not allow the event.
	Evolve(Event) error
	// Decide emits what follows from the state, once all events of in are folded. It compares the desired state with the
	// current state and with the calls under way, and emits only what is missing.
	Decide(in Input, emit Emit)
	// State returns the state, which the caller only reads.
	State() proto.Message
	// Restore replaces the state by what State returned. The caller then passes every manifest of Digests to Resolve,
	// before it calls anything else.
	Restore(state []byte) error
	// Digests returns the digests of the manifests that the state refers to.
	Digests() []string
	// Resolve passes in a manifest of Digests.
	Resolve(digest string, manifest *corev1.Pod)
	// Timers returns the timers that are set; nil for an actor that never sets one.
	Timers() *journaletv1.Timers
}

// Decide calls d.Decide. take gets each decision; its first error ends d.Decide and is returned (ADR 089).
func Decide(d Decider, in Input, take func(*journaletv1.Event) error) (err error) {
	defer func() {
		if err == nil {
			return // d has panicked, or nothing was refused
		}
		if p := recover(); p != nil && p != any(refused{}) {
			panic(p)
		}
	}()
	d.Decide(in, func(e *journaletv1.Event) {
		if err = take(e); err != nil {
			panic(refused{}) // deciders have no defer: nothing of them runs after this
		}
	})
	return nil
}

// refused unwinds a decider from a decision that take refuses to its caller.
type refused struct{}

// IllegalError reports an event that is not allowed in a state.
type IllegalError struct {
	Event string
	State string
}

func (e *IllegalError) Error() string {
	return fmt.Sprintf("event %s is not allowed in state %s", e.Event, e.State)
}

// Illegal returns the error for an event that a state does not allow.
func Illegal(e Event, state fmt.Stringer) error {
	return &IllegalError{Event: messages.EventName(e.Body), State: state.String()}
}

// FoldTimer folds TimerSet, TimerCleared and TimerFired into the timers of a state, and ignores other events. It
// returns the name of the timer that fired; "" if none did, or if an older generation of it did.
func FoldTimer(t *journaletv1.Timers, e Event) string {
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_TimerSet:
		if t.Set == nil {
			t.Set = map[string]*journaletv1.Timer{}
		}
		s := k.TimerSet
		t.Generation = max(t.Generation, s.GetGeneration())
		t.Set[s.GetName()] = &journaletv1.Timer{
			Name: s.GetName(), Generation: s.GetGeneration(),
			SetAt: timestamppb.New(e.Time), Duration: s.GetDuration(),
		}
	case *journaletv1.Event_TimerCleared:
		delete(t.Set, k.TimerCleared.GetName())
	case *journaletv1.Event_TimerFired:
		f := k.TimerFired
		if set := t.Set[f.GetName()]; set != nil && set.GetGeneration() == f.GetGeneration() {
			delete(t.Set, f.GetName())
			return f.GetName()
		}
	}
	return ""
}

// SetTimer returns the decision to set a timer; nil if one with this name is set already.
func SetTimer(t *journaletv1.Timers, name string, after time.Duration) *journaletv1.Event {
	if t.GetSet()[name] != nil {
		return nil
	}
	return messages.NewEvent(&journaletv1.TimerSet{
		Name: name, Generation: t.GetGeneration() + 1, Duration: durationpb.New(after),
	})
}

// ClearTimer returns the decision to clear a timer; nil if none with this name is set.
func ClearTimer(t *journaletv1.Timers, name string) *journaletv1.Event {
	if t.GetSet()[name] == nil {
		return nil
	}
	return messages.NewEvent(&journaletv1.TimerCleared{Name: name})
}
