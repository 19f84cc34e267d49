package bus

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Observers is the way out: every single event of a stored record, as JSON, on a subject by its own
// name, made only while somebody listens. What an observer misses, it reads again by its number.
type Observers struct {
	node            string
	nc              *nats.Conn
	agent, observer *server.Account
}

// Flat is one event as observers see it: a fact, or one decision of a step.
type Flat struct {
	// Seq and Epoch are those of the record that holds the event.
	Seq   uint64 `json:"seq"`
	Time  string `json:"time"` // RFC 3339 with nanoseconds, UTC
	Epoch uint64 `json:"epoch"`
	// ID is a decision's id; a fact has none.
	ID string `json:"id,omitempty"`
	// Cause is the number of the record that a decision answers; 0 for a fact.
	Cause uint64 `json:"cause,omitempty"`
	// Author is the actor that decided, or that a fact is about, as kind/id.
	Author string `json:"author"`
	// Event is the event's name in the contract, such as pod_observed.
	Event string `json:"event"`
	// Data is the event itself, with the contract's field names.
	Data json.RawMessage `json:"data"`

	subject string
	message *journaletv1.Event
}

// Subject is where observers see it.
func (f *Flat) Subject() string { return f.subject }

var dataForm = protojson.MarshalOptions{UseProtoNames: true}

// Wanted tells whether anybody may be listening: cheap, and true at once when an observer connects. It
// is also true for one that only asks questions; Publish looks at each subject by itself.
func (o *Observers) Wanted() bool {
	return o.observer.NumConnections() > 0 || o.agent.NumLeafNodes() > 0
}

// Publish sends the events of a stored record to those who listen for them. It never waits for an
// observer: the server cuts off one that does not read.
func (o *Observers) Publish(rec *journaletv1.Record) {
	for _, f := range flatten(o.node, rec) {
		if !o.agent.SubscriptionInterest(f.subject) {
			continue
		}
		if !f.fill() {
			continue
		}
		b, err := json.Marshal(&f)
		if err != nil {
			continue // every part of it was encoded before
		}
		// An error here is the end of the connection, that is, of the bus.
		_ = o.nc.Publish(f.subject, b)
	}
}

// Flatten is the events of a record as observers see them. An event of a newer version that this one
// does not know is left out.
func Flatten(node string, rec *journaletv1.Record) []Flat {
	flats := flatten(node, rec)
	out := flats[:0]
	for _, f := range flats {
		if f.fill() {
			out = append(out, f)
		}
	}
	return out
}

// flatten does all but the costly part, the data.
func flatten(node string, rec *journaletv1.Record) []Flat {
	author := messages.RefOf(rec.GetActor())
	events := messages.Events(rec)
	at := rec.GetTime().AsTime().Format(time.RFC3339Nano)
	out := make([]Flat, 0, len(events))
	for i, e := range events {
		name := messages.EventName(e)
		if name == "" {
			continue
		}
		f := Flat{
			Seq: rec.GetSeq(), Time: at, Epoch: rec.GetEpoch(), Author: author.String(), Event: name,
			subject: messages.EventSubject(node, author, name), message: e,
		}
		if step := rec.GetStep(); step != nil {
			f.Cause = step.GetCause()
			f.ID = messages.DecisionID(rec.GetEpoch(), step.GetCause(), author, i)
		}
		out = append(out, f)
	}
	return out
}

// fill encodes the event; false if it cannot be (text that is not UTF-8, which the contract forbids).
func (f *Flat) fill() bool {
	m := f.message.ProtoReflect()
	b, err := dataForm.Marshal(m.Get(messages.EventField(f.message)).Message().Interface())
	f.Data = b
	return err == nil
}
