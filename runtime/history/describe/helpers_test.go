package describe

import (
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func added(uid, namespace, name string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Pod: podRef(uid, namespace, name), Source: messages.FileSource,
	})
}

func observed(uid string, containers ...*journaletv1.ContainerObservation) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodObserved{Uid: uid, Containers: containers})
}

func container(id string, attempt uint32, state journaletv1.ContainerState, exit int32,
	reason string) *journaletv1.ContainerObservation {
	return &journaletv1.ContainerObservation{Id: id, Name: "main", Attempt: attempt, State: state,
		ExitCode: exit, Reason: reason}
}

func startCall(attempt uint32) *journaletv1.Event {
	return messages.NewEvent(messages.NewCall(&journaletv1.StartContainer{Container: "main", Attempt: attempt}))
}

func callResult(intent, requester string, err journaletv1.CallError, message string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.CallFinished{
		IntentId: intent, Requester: requester, Error: err, Message: message,
	})
}

func podRef(uid, namespace, name string) *journaletv1.PodRef {
	return &journaletv1.PodRef{Uid: uid, Namespace: namespace, Name: name, Digest: "sha256:00"}
}
