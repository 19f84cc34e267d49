package source

import (
	"testing"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestAnswerToWithdrawnUIDRequestIsIgnored(t *testing.T) {
	a := New(messages.HTTPSource)
	handle := func(e *journaletv1.Event) (decisions []*journaletv1.Event) {
		t.Helper()
		in := actors.Event{Body: e}
		if err := a.Evolve(in); err != nil {
			t.Fatal(err)
		}
		if err := actors.Decide(a, actors.Input{Events: []actors.Event{in}}, func(e *journaletv1.Event) error {
			decisions = append(decisions, e)
			return a.Evolve(actors.Event{Body: e})
		}); err != nil {
			t.Fatal(err)
		}
		return decisions
	}
	read := func(pods ...*journaletv1.PodRef) *journaletv1.Event {
		return messages.NewEvent(&journaletv1.ManifestsRead{
			Source: messages.HTTPSource, Changed: []*journaletv1.ManifestFile{{Path: "f", Pods: pods}}, Synced: true,
		})
	}
	granted := func(requestID uint64) *journaletv1.Event {
		return messages.NewEvent(&journaletv1.UidGranted{
			Uid: "u", Source: messages.HTTPSource, RequestId: requestID,
		})
	}
	deferred := messages.NewEvent(&journaletv1.UidDeferred{
		Uid: "u", Source: messages.HTTPSource, RequestId: 1, Holder: "file",
	})
	pod := &journaletv1.PodRef{Uid: "u", Namespace: "d", Name: "n", Digest: "g"}
	handle(messages.NewEvent(&journaletv1.AgentStarted{
		Config: &journaletv1.AgentConfig{Sources: []string{messages.FileSource, messages.HTTPSource}},
	}))
	if d := handle(read(pod)); d[0].GetUidRequested().GetRequestId() != 1 {
		t.Fatalf("the added pod leads to %v, want request 1", d)
	}
	if d := handle(read()); d[0].GetUidWithdrawn().GetRequestId() != 1 {
		t.Fatalf("the removed pod leads to %v, want the withdrawal of request 1", d)
	}
	for _, late := range []*journaletv1.Event{deferred, granted(1)} {
		if d := handle(late); len(d) > 0 {
			t.Errorf("without a request, %v leads to %v", late, d)
		}
	}
	if d := handle(read(pod)); d[0].GetUidRequested().GetRequestId() != 2 {
		t.Fatalf("the pod that returned leads to %v, want request 2", d)
	}
	for _, late := range []*journaletv1.Event{deferred, granted(1)} {
		if d := handle(late); len(d) > 0 {
			t.Errorf("with another request, %v leads to %v", late, d)
		}
	}
	add := journaletv1.PodOperation_POD_OPERATION_ADD
	if d := handle(granted(2)); len(d) != 1 || d[0].GetPodUpdated().GetOperation() != add {
		t.Errorf("the grant leads to %v, want ADD", d)
	}
	// An orphan with this UID was garbage-collected at the same time.
	end := &journaletv1.PodFinished{Uid: "u", Orphan: true}
	if d := handle(messages.NewEvent(end)); len(d) > 0 {
		t.Errorf("the end of the orphan leads to %v", d)
	}
	end.Orphan = false
	if d := handle(messages.NewEvent(end)); len(d) != 1 {
		t.Errorf("the end of the pod itself leads to %v, want one decision", d)
	}
}
