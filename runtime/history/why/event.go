package why

import (
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// Event is one event of the journal: a fact, or one decision of a step.
type Event struct {
	// Seq is the record's, Index the event's place in it.
	Seq   uint64
	Index int
	Epoch uint64
	Time  time.Time
	// Author decided it; a fact is about it.
	Author messages.Ref
	// ID is a decision's id, Cause the record that its author handled; empty and 0 for a fact.
	ID    string
	Cause uint64
	Body  *journaletv1.Event
}

// Name returns the event's name in the contract, "" for an event of a newer version.
func (e *Event) Name() string { return messages.EventName(e.Body) }

// eventsOf returns the events of a record.
func eventsOf(rec *journaletv1.Record) []Event {
	var out []Event
	step, author := rec.GetStep(), messages.RefOf(rec.GetActor())
	for i, body := range messages.Events(rec) {
		e := Event{
			Seq: rec.GetSeq(), Index: i, Epoch: rec.GetEpoch(), Time: rec.GetTime().AsTime(), Author: author, Body: body,
		}
		if step != nil {
			e.Cause = step.GetCause()
			e.ID = messages.DecisionID(rec.GetEpoch(), e.Cause, author, int(step.GetOffset())+i)
		}
		out = append(out, e)
	}
	return out
}

// text returns a text field of the event, "" if it has none with this name.
func (e *Event) text(field protoreflect.Name) string {
	fd := messages.EventField(e.Body)
	if fd == nil {
		return ""
	}
	return history.Text(e.Body.ProtoReflect().Get(fd).Message(), field)
}

// uid returns the UID of the pod that the event names, or that is its author; "" for none.
func (e *Event) uid() string {
	if pods := history.PodsOf(e.Author, e.Body); len(pods) > 0 {
		if named := e.text("uid"); named != "" {
			return named
		}
		return pods[0]
	}
	return ""
}

// image returns the image that the event names, "" for none.
func (e *Event) image() string {
	if pull := e.Body.GetCallRequested().GetPullImage(); pull != nil {
		return pull.GetImage()
	}
	return e.text("image")
}
