package source

import (
	"testing"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestAnAnswerToAQuestionThatWasTakenBackGivesNoUID(t *testing.T) {
	a := New(messages.HTTPSource)
	var told []*journaletv1.Event
	hears := func(e *journaletv1.Event) []*journaletv1.Event {
		t.Helper()
		told = nil
		in := actors.Event{Body: e}
		if err := a.Evolve(in); err != nil {
			t.Fatal(err)
		}
		if err := a.Decide(actors.Input{Events: []actors.Event{in}}, func(e *journaletv1.Event) error {
			told = append(told, e)
			return a.Evolve(actors.Event{Body: e})
		}); err != nil {
			t.Fatal(err)
		}
		return told
	}
	read := func(pods ...*journaletv1.PodRef) *journaletv1.Event {
		return &journaletv1.Event{Kind: &journaletv1.Event_ManifestsRead{ManifestsRead: &journaletv1.ManifestsRead{
			Source: messages.HTTPSource, Changed: []*journaletv1.ManifestFile{{Path: "f", Pods: pods}}, Synced: true,
		}}}
	}
	granted := func(number uint64) *journaletv1.Event {
		return &journaletv1.Event{Kind: &journaletv1.Event_UidGranted{UidGranted: &journaletv1.UidGranted{Uid: "u", Source: messages.HTTPSource, RequestId: number}}}
	}
	deferred := &journaletv1.Event{Kind: &journaletv1.Event_UidDeferred{UidDeferred: &journaletv1.UidDeferred{Uid: "u", Source: messages.HTTPSource, RequestId: 1, Holder: "file"}}}
	pod := &journaletv1.PodRef{Uid: "u", Namespace: "d", Name: "n", Digest: "g"}
	hears(&journaletv1.Event{Kind: &journaletv1.Event_AgentStarted{AgentStarted: &journaletv1.AgentStarted{
		Config: &journaletv1.AgentConfig{Sources: []string{messages.FileSource, messages.HTTPSource}},
	}}})
	if q := hears(read(pod)); q[0].GetUidRequested().GetRequestId() != 1 {
		t.Fatalf("it asks %v", q)
	}
	if q := hears(read()); q[0].GetUidWithdrawn().GetRequestId() != 1 {
		t.Fatalf("it takes back %v", q)
	}
	for _, late := range []*journaletv1.Event{deferred, granted(1)} {
		if said := hears(late); len(said) > 0 {
			t.Errorf("without a question, %v leads to %v", late, said)
		}
	}
	if q := hears(read(pod)); q[0].GetUidRequested().GetRequestId() != 2 {
		t.Fatalf("it asks again %v", q)
	}
	for _, late := range []*journaletv1.Event{deferred, granted(1)} {
		if said := hears(late); len(said) > 0 {
			t.Errorf("with another question, %v leads to %v", late, said)
		}
	}
	if said := hears(granted(2)); len(said) != 1 || said[0].GetPodUpdated().GetOperation() != journaletv1.PodOperation_POD_OPERATION_ADD {
		t.Errorf("the answer leads to %v", said)
	}
	// What was nobody's under this UID was cleared away at the same time.
	end := &journaletv1.PodFinished{Uid: "u", Orphan: true}
	if said := hears(&journaletv1.Event{Kind: &journaletv1.Event_PodFinished{PodFinished: end}}); len(said) > 0 {
		t.Errorf("the end of what nobody named leads to %v", said)
	}
	end.Orphan = false
	if said := hears(&journaletv1.Event{Kind: &journaletv1.Event_PodFinished{PodFinished: end}}); len(said) != 1 {
		t.Errorf("the pod's own end leads to %v", said)
	}
}
