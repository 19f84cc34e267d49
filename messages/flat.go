package messages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
)

// Flat is one event as observers receive it: a fact, or one decision of a step.
type Flat struct {
	// Seq and Epoch are those of the record that holds the event.
	Seq   uint64 `json:"seq"`
	Time  string `json:"time"` // RFC 3339 with nanoseconds, UTC
	Epoch uint64 `json:"epoch"`
	// Index is the event's place among the Of events of its record, from 0. Of is 0 for what is no event of the journal.
	Index int `json:"index"`
	Of    int `json:"of"`
	// ID is a decision's id; a fact has none.
	ID string `json:"id,omitempty"`
	// Cause is the number of the record that led to the decision; 0 for a fact.
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

// Position returns the event's place in the journal.
func (f *Flat) Position() Position { return Position{f.Epoch, f.Seq, f.Index} }

// Message returns the event that was flattened, nil for one that was decoded from JSON.
func (f *Flat) Message() *journaletv1.Event { return f.message }

// Subject returns the subject that the event is published on.
func (f *Flat) Subject() string { return f.subject }

var dataForm = protojson.MarshalOptions{UseProtoNames: true}

// Flatten returns the events of a record as observers receive them, without events of a newer version that this one
// does not know.
func Flatten(node string, rec *journaletv1.Record) []Flat {
	flats := FlattenLazily(node, rec)
	out := flats[:0]
	for _, f := range flats {
		if f.Encode() {
			out = append(out, f)
		}
	}
	return out
}

// FlattenLazily does what Flatten does but for the expensive part, the data: see Flat.Encode.
func FlattenLazily(node string, rec *journaletv1.Record) []Flat {
	author := RefOf(rec.GetActor())
	events := Events(rec)
	at := rec.GetTime().AsTime().Format(time.RFC3339Nano)
	out := make([]Flat, 0, len(events))
	for i, e := range events {
		name := EventName(e)
		if name == "" {
			continue
		}
		f := Flat{
			Seq: rec.GetSeq(), Time: at, Epoch: rec.GetEpoch(), Index: i, Of: len(events),
			Author: author.String(), Event: name,
			subject: EventSubject(node, author, name), message: e,
		}
		if step := rec.GetStep(); step != nil {
			f.Cause = step.GetCause()
			f.ID = DecisionID(rec.GetEpoch(), step.GetCause(), author, int(step.GetOffset())+i)
		}
		out = append(out, f)
	}
	return out
}

// Encode sets Data; false if the event cannot be encoded (text that is not UTF-8, which the contract forbids). What a
// terminal acts on is escaped in it, so an observer may print it as it comes.
func (f *Flat) Encode() bool {
	m := f.message.ProtoReflect()
	b, err := dataForm.Marshal(m.Get(EventField(f.message)).Message().Interface())
	f.Data = plain.JSON(b)
	return err == nil
}

// Position is an event's place in the journal. Positions are compared by epoch first: after a journal has lost its
// tail, the next run uses the numbers of the lost records again.
type Position struct {
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"`
	Index int    `json:"index"`
}

// Before reports whether p is before q.
func (p Position) Before(q Position) bool {
	return cmp.Or(cmp.Compare(p.Epoch, q.Epoch), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Index, q.Index)) < 0
}

// String returns <epoch>.<seq>.<index>.
func (p Position) String() string { return fmt.Sprintf("%d.%d.%d", p.Epoch, p.Seq, p.Index) }
