package actors

import (
	"errors"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
)

// emits is a decider that emits so many decisions, and notes how many of them have returned.
type emits struct {
	Decider
	n, returned int
	then        func()
}

func (d *emits) Decide(_ Input, emit Emit) {
	for range d.n {
		emit(&journaletv1.Event{})
		d.returned++
	}
	d.then()
}

func TestARefusedDecisionEndsTheStep(t *testing.T) {
	second := errors.New("the second is refused")
	taken := 0
	d := &emits{n: 3, then: func() { t.Error("the decider continued") }}
	err := Decide(d, Input{}, func(*journaletv1.Event) error {
		if taken++; taken == 2 {
			return second
		}
		return nil
	})
	if !errors.Is(err, second) || taken != 2 || d.returned != 1 {
		t.Errorf("%v after %d decisions, of which %d returned", err, taken, d.returned)
	}
}

func TestAPanicOfADeciderIsNoRefusal(t *testing.T) {
	defer func() {
		if p := recover(); p != "a bug" {
			t.Errorf("recovered %v", p)
		}
	}()
	err := Decide(&emits{n: 1, then: func() { panic("a bug") }}, Input{}, func(*journaletv1.Event) error { return nil })
	t.Errorf("returned %v", err)
}

func TestAllDecisionsAreTaken(t *testing.T) {
	d := &emits{n: 3, then: func() {}}
	if err := Decide(d, Input{}, func(*journaletv1.Event) error { return nil }); err != nil || d.returned != 3 {
		t.Errorf("%v, %d returned", err, d.returned)
	}
}
