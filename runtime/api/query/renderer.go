package query

import (
	"context"
	"strconv"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Renderer renders a stream of events in words, each with its cause. It remembers what it rendered and fetches a cause
// from the agent only if it was not in the stream.
type Renderer struct {
	d     *Describer
	past  memory[[]rendered] // by seq
	fetch func(ctx context.Context, seq uint64) (*RecordReport, error)
}

// rendered is one event that may be the cause of later ones.
type rendered struct {
	id     string
	author messages.Ref
	event  *journaletv1.Event
	text   string
}

// NewRenderer returns a Renderer. fetch, which may be nil, gets a record that was not in the stream: see Client.Record.
func NewRenderer(d *Describer, fetch func(ctx context.Context, seq uint64) (*RecordReport, error)) *Renderer {
	return &Renderer{d: d, fetch: fetch}
}

// Render describes an event; one that this version does not know by its name alone.
func (r *Renderer) Render(ctx context.Context, f bus.Flat) Line {
	l := Line{Flat: f, Text: f.Event}
	author, err := messages.ParseRef(f.Author)
	if err != nil {
		return l
	}
	e, err := Event(&f)
	if err != nil {
		return l
	}
	l.Text = r.d.Describe(f.ID, author, e)
	if f.Cause > 0 {
		l.CauseText = r.cause(ctx, author, e, f.Cause)
	}
	r.remember(f.Seq, rendered{f.ID, author, e, l.Text})
	return l
}

func (r *Renderer) remember(seq uint64, event rendered) {
	key := strconv.FormatUint(seq, 10)
	r.past.put(key, append(r.past.m[key], event))
}

// cause describes the event of record seq to which actor who responded with e: the intent that e is about, else the
// first event that the actor receives. It returns "" if there is none.
func (r *Renderer) cause(ctx context.Context, who messages.Ref, e *journaletv1.Event, seq uint64) string {
	key := strconv.FormatUint(seq, 10)
	if _, ok := r.past.m[key]; !ok && r.fetch != nil {
		r.past.put(key, nil)
		if rec, err := r.fetch(ctx, seq); err == nil {
			for _, l := range rec.Events {
				author, aerr := messages.ParseRef(l.Author)
				if e, err := Event(&l.Flat); err == nil && aerr == nil {
					r.remember(seq, rendered{l.ID, author, e, r.d.Describe(l.ID, author, e)})
				}
			}
		}
	}
	intent := intentOf(e)
	for _, past := range r.past.m[key] {
		if intent != "" && past.id == intent {
			return past.text
		}
	}
	for _, past := range r.past.m[key] {
		if Concerns(who, past.author, past.event) {
			return past.text
		}
	}
	return ""
}

// intentOf returns the id of the intent that an event is about, "" for none.
func intentOf(e *journaletv1.Event) string {
	fd := messages.EventField(e)
	if fd == nil {
		return ""
	}
	return text(e.ProtoReflect().Get(fd).Message(), "intent_id")
}
