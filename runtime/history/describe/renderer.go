package describe

import (
	"context"
	"strconv"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// Line is one event with its description and the description of its cause.
type Line struct {
	messages.Flat
	Text string `json:"text"`
	// CauseText describes the record Cause; empty for a fact.
	CauseText string `json:"causeText,omitempty"`
}

// Renderer renders a stream of events in words, each with its cause. It remembers what it rendered and fetches a cause
// from the agent only if it was not in the stream.
type Renderer struct {
	d     *Describer
	past  memory[[]rendered] // by seq
	fetch func(ctx context.Context, seq uint64) ([]Line, error)
}

// rendered is one event that may be the cause of later ones.
type rendered struct {
	id     string
	author messages.Ref
	event  *journaletv1.Event
	text   string
}

// NewRenderer returns a Renderer. fetch, which may be nil, gets the events of a record that was not in the stream.
func NewRenderer(d *Describer, fetch func(ctx context.Context, seq uint64) ([]Line, error)) *Renderer {
	return &Renderer{d: d, fetch: fetch}
}

// Render describes an event. It describes an event that this version does not know by its name alone.
func (r *Renderer) Render(ctx context.Context, f messages.Flat) Line {
	l := Line{Flat: f, Text: f.Event}
	author, err := messages.ParseRef(f.Author)
	if err != nil {
		return l
	}
	e, err := history.Event(&f)
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

// cause describes the event of record seq that actor who responded to with e: the intent that e is about, else the
// first event that the actor receives. It returns "" if there is no such event.
func (r *Renderer) cause(ctx context.Context, who messages.Ref, e *journaletv1.Event, seq uint64) string {
	key := strconv.FormatUint(seq, 10)
	if _, ok := r.past.m[key]; !ok && r.fetch != nil {
		r.past.put(key, nil)
		if lines, err := r.fetch(ctx, seq); err == nil {
			for _, l := range lines {
				author, aerr := messages.ParseRef(l.Author)
				if e, err := history.Event(&l.Flat); err == nil && aerr == nil {
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
		if history.Concerns(who, past.author, past.event) {
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
	return history.Text(e.ProtoReflect().Get(fd).Message(), "intent_id")
}

// Cause describes the first event of a record that actor who receives.
func (d *Describer) Cause(node string, who messages.Ref, rec *journaletv1.Record) string {
	author := messages.RefOf(rec.GetActor())
	for _, f := range messages.Flatten(node, rec) {
		e, err := history.Event(&f)
		if err != nil {
			continue
		}
		// Describe remembers also the events that are not returned.
		if text := d.Describe(f.ID, author, e); history.Concerns(who, author, e) {
			return text
		}
	}
	return ""
}
