package query

import (
	"context"
	"strconv"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Teller puts a stream of events into words, each with what it follows from. It remembers what it has
// told, so that a cause costs a question to the agent only if it was not shown.
type Teller struct {
	d     *Describer
	past  memory[[]told] // by seq
	fetch func(ctx context.Context, seq uint64) (*RecordReport, error)
}

// told is one event that may become a cause.
type told struct {
	id     string
	author messages.Ref
	event  *journaletv1.Event
	text   string
}

// NewTeller makes one; fetch, which may be nil, gets a record that was not shown. Client.Record fits.
func NewTeller(d *Describer, fetch func(ctx context.Context, seq uint64) (*RecordReport, error)) *Teller {
	return &Teller{d: d, fetch: fetch}
}

// Tell is an event in words. An event that this version does not know is told by its name.
func (t *Teller) Tell(ctx context.Context, f bus.Flat) Line {
	l := Line{Flat: f, Text: f.Event}
	author, err := messages.ParseRef(f.Author)
	if err != nil {
		return l
	}
	e, err := Event(&f)
	if err != nil {
		return l
	}
	l.Text = t.d.Describe(f.ID, author, e)
	if f.Cause > 0 {
		l.CauseText = t.cause(ctx, author, e, f.Cause)
	}
	t.remember(f.Seq, told{f.ID, author, e, l.Text})
	return l
}

func (t *Teller) remember(seq uint64, one told) {
	key := strconv.FormatUint(seq, 10)
	t.past.put(key, append(t.past.m[key], one))
}

// cause tells what in a record made the actor who decide e: the intent that e is about, or else the first
// event that the actor heard. "" if that cannot be told.
func (t *Teller) cause(ctx context.Context, who messages.Ref, e *journaletv1.Event, seq uint64) string {
	key := strconv.FormatUint(seq, 10)
	if _, ok := t.past.m[key]; !ok && t.fetch != nil {
		t.past.put(key, nil)
		if rec, err := t.fetch(ctx, seq); err == nil {
			for _, l := range rec.Events {
				author, aerr := messages.ParseRef(l.Author)
				if e, err := Event(&l.Flat); err == nil && aerr == nil {
					t.remember(seq, told{l.ID, author, e, t.d.Describe(l.ID, author, e)})
				}
			}
		}
	}
	intent := intentOf(e)
	for _, one := range t.past.m[key] {
		if intent != "" && one.id == intent {
			return one.text
		}
	}
	for _, one := range t.past.m[key] {
		if Concerns(who, one.author, one.event) {
			return one.text
		}
	}
	return ""
}

// intentOf is the id of the intent that an event is about, "" for none.
func intentOf(e *journaletv1.Event) string {
	fd := messages.EventField(e)
	if fd == nil {
		return ""
	}
	return text(e.ProtoReflect().Get(fd).Message(), "intent_id")
}
