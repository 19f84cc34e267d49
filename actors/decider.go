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
	// Seq is the record that the actor handles: of an own decision, its cause.
	Seq uint64
	// Time is the event's own time; an own decision has the time of its cause.
	Time time.Time
	// Author is the actor that decided it, or, of a fact, the actor that the fact is about.
	Author messages.Ref
	// Body is the event. It is shared and must not be changed.
	Body *journaletv1.Event
	// Manifest is what the digest in Body names, defaults applied; nil where Body names none. It is
	// shared and must not be changed.
	Manifest *corev1.Pod
}

// Input is one record, as far as it concerns one actor.
type Input struct {
	Seq    uint64
	Time   time.Time
	Events []Event
}

// Emit records a decision of the step under way and folds it at once, so that what is decided next
// sees it. Its error comes from that fold; the step is then given up.
type Emit func(*journaletv1.Event) error

// Decider is one actor's logic and its state.
type Decider interface {
	// Evolve folds one event. Folding the same events in the same order gives the same state,
	// whatever version wrote them. An error, always an *IllegalError, means that the state does not
	// allow the event.
	Evolve(Event) error
	// Decide says what follows from the state after all of in's events are folded. It compares what
	// is wanted with what is and what is under way, and emits only what is missing.
	Decide(in Input, emit Emit) error
	// State is the state, to be read only.
	State() proto.Message
	// Restore replaces the state by one that State gave. The manifests that Digests then names are
	// handed over by Resolve before anything else.
	Restore(state []byte) error
	// Digests names the manifests that the state refers to.
	Digests() []string
	// Resolve hands over a manifest that Digests named.
	Resolve(digest string, manifest *corev1.Pod)
	// Timers are the timers that are set, nil for an actor without any.
	Timers() *journaletv1.Timers
}

// IllegalError says that an event is not allowed in a state.
type IllegalError struct {
	Event string
	State string
}

func (e *IllegalError) Error() string {
	return fmt.Sprintf("event %s is not allowed in state %s", e.Event, e.State)
}

// Illegal makes the error for an event that a state does not allow.
func Illegal(e Event, state fmt.Stringer) error {
	return &IllegalError{Event: messages.EventName(e.Body), State: state.String()}
}

// FoldTimer keeps the timers of a state: sets, clears and firings, and nothing else. It returns the
// name of the timer that fired, or "" if none did or the firing is of an older generation.
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

// SetTimer is the decision to set a timer, or nil if one of this name is set already.
func SetTimer(t *journaletv1.Timers, name string, after time.Duration) *journaletv1.Event {
	if t.GetSet()[name] != nil {
		return nil
	}
	return &journaletv1.Event{Kind: &journaletv1.Event_TimerSet{TimerSet: &journaletv1.TimerSet{
		Name: name, Generation: t.GetGeneration() + 1, Duration: durationpb.New(after),
	}}}
}

// ClearTimer is the decision to clear a timer, or nil if none of this name is set.
func ClearTimer(t *journaletv1.Timers, name string) *journaletv1.Event {
	if t.GetSet()[name] == nil {
		return nil
	}
	return &journaletv1.Event{Kind: &journaletv1.Event_TimerCleared{TimerCleared: &journaletv1.TimerCleared{Name: name}}}
}
