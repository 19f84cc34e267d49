package node

import (
	"fmt"
	"slices"
	"testing"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// handle has the node handle one event, and returns its answers to sources in short.
func handle(t *testing.T, a *Actor, e *journaletv1.Event) []string {
	t.Helper()
	in := actors.Event{Body: e}
	if err := a.Evolve(in); err != nil {
		t.Fatal(err)
	}
	var answers []string
	if err := actors.Decide(a, actors.Input{Events: []actors.Event{in}}, func(e *journaletv1.Event) error {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_UidGranted:
			g := k.UidGranted
			answers = append(answers, fmt.Sprintf("%s has %s by request %d", g.GetSource(), g.GetUid(), g.GetRequestId()))
		case *journaletv1.Event_UidDeferred:
			answers = append(answers, fmt.Sprintf("%s waits for %s", k.UidDeferred.GetSource(), k.UidDeferred.GetHolder()))
		}
		return a.Evolve(actors.Event{Body: e})
	}); err != nil {
		t.Fatal(err)
	}
	return answers
}

func uidRequested(source string, requestID uint64) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.UidRequested{
		Uid: "u", Source: source, RequestId: requestID,
	})
}

func uidWithdrawn(source string, requestID uint64) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.UidWithdrawn{
		Uid: "u", Source: source, RequestId: requestID,
	})
}

func TestUIDIsGrantedToOneSourceAtATimeInOrder(t *testing.T) {
	a := New()
	for _, s := range []struct {
		e    *journaletv1.Event
		want []string
	}{
		{uidRequested("a", 1), []string{"a has u by request 1"}},
		{uidRequested("b", 1), []string{"b waits for a"}},
		{uidRequested("c", 1), []string{"c waits for a"}},
		{uidRequested("d", 1), []string{"d waits for a"}},
		// A withdrawn request that waits moves only those behind it.
		{uidWithdrawn("b", 1), nil},
		// The withdrawn request does not end the later one: their request ids differ.
		{uidRequested("b", 2), []string{"b waits for a"}},
		{uidWithdrawn("b", 1), nil},
		{uidWithdrawn("a", 7), nil},
		{uidWithdrawn("a", 1), []string{"c has u by request 1"}},
		{uidWithdrawn("c", 1), []string{"d has u by request 1"}},
		{uidWithdrawn("d", 1), []string{"b has u by request 2"}},
		{uidWithdrawn("b", 2), nil},
	} {
		if got := handle(t, a, s.e); !slices.Equal(got, s.want) {
			t.Errorf("after %v: %q, not %q", s.e, got, s.want)
		}
	}
	if n := len(a.Node().GetUids()); n > 0 {
		t.Errorf("%d claims are left in the state", n)
	}
}
