package dispatch

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Decide dispatches every call that can run now.
func (a *Actor) Decide(in actors.Input, emit actors.Emit) {
	for _, e := range in.Events {
		switch k := e.Body.GetKind().(type) {
		case *journaletv1.Event_AgentStarted:
			a.resume(in, emit)
		case *journaletv1.Event_CallWithdrawn:
			a.drop(k.CallWithdrawn.GetIntentId(), emit)
		}
	}
	a.decideConfig(emit)
	if !a.state.GetHealth().GetRuntimeReady() {
		return
	}
	for _, l := range lanes {
		for c := a.next(l); c != nil; c = a.next(l) {
			emit(dispatched(&journaletv1.CallDispatched{IntentId: c.GetIntentId()}))
		}
	}
	a.waitForIdlePods(emit)
}

// resume dispatches the calls that were under way when the last run ended again, in doubt: the driver first inspects
// the runtime to find out whether they took place.
func (a *Actor) resume(in actors.Input, emit actors.Emit) {
	for _, c := range a.underWay() {
		if !c.GetInDoubt() {
			continue
		}
		d := &journaletv1.CallDispatched{IntentId: c.GetIntentId(), InDoubt: true}
		if gone := in.Time.Sub(c.GetDispatchedAt().AsTime()); gone > 0 {
			d.Elapsed = durationpb.New(gone)
		}
		emit(dispatched(d))
	}
}

// drop ends a withdrawn call that was not dispatched yet. A call under way ends with its outcome.
func (a *Actor) drop(id string, emit actors.Emit) {
	c := a.state.Calls[id]
	if c.GetStage() != journaletv1.CallStage_CALL_STAGE_QUEUED {
		return
	}
	emit(messages.NewEvent(&journaletv1.CallDropped{IntentId: id, Requester: c.GetRequester()}))
}

func dispatched(d *journaletv1.CallDispatched) *journaletv1.Event {
	return messages.NewEvent(d)
}
