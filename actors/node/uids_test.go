package node

import (
	"fmt"
	"slices"
	"testing"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// hears lets the node handle one event, and gives its answers to sources in short.
func hears(t *testing.T, a *Actor, e *journaletv1.Event) []string {
	t.Helper()
	in := actors.Event{Body: e}
	if err := a.Evolve(in); err != nil {
		t.Fatal(err)
	}
	var said []string
	if err := a.Decide(actors.Input{Events: []actors.Event{in}}, func(e *journaletv1.Event) error {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_UidGranted:
			said = append(said, fmt.Sprintf("%s has %s by question %d", k.UidGranted.GetSource(), k.UidGranted.GetUid(), k.UidGranted.GetRequestId()))
		case *journaletv1.Event_UidDeferred:
			said = append(said, fmt.Sprintf("%s waits for %s", k.UidDeferred.GetSource(), k.UidDeferred.GetHolder()))
		}
		return a.Evolve(actors.Event{Body: e})
	}); err != nil {
		t.Fatal(err)
	}
	return said
}

func asksUID(source string, number uint64) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_UidRequested{UidRequested: &journaletv1.UidRequested{Uid: "u", Source: source, RequestId: number}}}
}

func releases(source string, number uint64) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_UidWithdrawn{UidWithdrawn: &journaletv1.UidWithdrawn{Uid: "u", Source: source, RequestId: number}}}
}

func TestAUIDIsOneSourcesAtATimeFirstComeFirstServed(t *testing.T) {
	a := New()
	for _, s := range []struct {
		e    *journaletv1.Event
		want []string
	}{
		{asksUID("a", 1), []string{"a has u by question 1"}},
		{asksUID("b", 1), []string{"b waits for a"}},
		{asksUID("c", 1), []string{"c waits for a"}},
		{asksUID("d", 1), []string{"d waits for a"}},
		// Who gives its place up moves nobody but those behind it.
		{releases("b", 1), nil},
		// An answer to what was taken back is still on its way: the number tells.
		{asksUID("b", 2), []string{"b waits for a"}},
		{releases("b", 1), nil},
		{releases("a", 7), nil},
		{releases("a", 1), []string{"c has u by question 1"}},
		{releases("c", 1), []string{"d has u by question 1"}},
		{releases("d", 1), []string{"b has u by question 2"}},
		{releases("b", 2), nil},
	} {
		if got := hears(t, a, s.e); !slices.Equal(got, s.want) {
			t.Errorf("after %v: %q, not %q", s.e, got, s.want)
		}
	}
	if n := len(a.Node().GetUids()); n > 0 {
		t.Errorf("%d claims are left in the books", n)
	}
}
