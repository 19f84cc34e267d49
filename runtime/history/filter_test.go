package history

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestPodsOfFindsThePodInEveryEventThatNamesOne(t *testing.T) {
	intent := messages.DecisionID(1, 7, messages.Pod("u1"), 0)
	for _, e := range []*journaletv1.Event{
		added("u1", "default", "web"), callResult("", "pod/u1", 0, ""), imagePullDecided("u1"),
		{Kind: &journaletv1.Event_CallDispatched{CallDispatched: &journaletv1.CallDispatched{IntentId: intent}}},
		{Kind: &journaletv1.Event_AdmissionDecided{AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u1"}}},
		{Kind: &journaletv1.Event_Quarantined{Quarantined: &journaletv1.Quarantined{Kind: "pod", Id: "u1"}}},
		{Kind: &journaletv1.Event_QuarantineLifted{QuarantineLifted: &journaletv1.QuarantineLifted{Kind: "pod", Id: "u1"}}},
		{Kind: &journaletv1.Event_CallRequested{CallRequested: &journaletv1.CallRequested{PodUid: "u1"}}},
	} {
		if got := PodsOf(messages.Runtime, e); len(got) != 1 || got[0] != "u1" {
			t.Errorf("%s is about %v", messages.EventName(e), got)
		}
	}
}

func added(uid, namespace, name string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Pod: podRef(uid, namespace, name), Source: messages.FileSource,
	})
}

func podRef(uid, namespace, name string) *journaletv1.PodRef {
	return &journaletv1.PodRef{Uid: uid, Namespace: namespace, Name: name, Digest: "sha256:00"}
}

func callResult(intent, requester string, err journaletv1.CallError, message string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.CallFinished{
		IntentId: intent, Requester: requester, Error: err, Message: message,
	})
}

func imagePullDecided(uid string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.ImagePullDecided{
		Uid: uid, Image: "busybox:1.36", Duration: durationpb.New(1234 * time.Millisecond), Bytes: 3 << 20,
	})
}
