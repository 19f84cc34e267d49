package why

import (
	"context"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// maxChain bounds the links of a chain. Chains are far shorter: they end at the newest fact from outside.
const maxChain = 1000

// explainer answers one query.
type explainer struct {
	j *journal
	d *describe.Describer
	// named are the UIDs whose names the describer was given, sets the snapshots that were read, by barrier.
	named map[string]bool
	sets  map[uint64]map[messages.Ref]*journaletv1.Snapshot
}

func newExplainer(ctx context.Context, r history.Reader, limit int) *explainer {
	return &explainer{j: newJournal(ctx, r, limit), d: describe.New(), named: map[string]bool{}}
}

// Chain is how an event came about: what led to it, what led to that, up to the end.
type Chain struct {
	// Events begins with the event in query. Each other one led to the one before it.
	Events []Event
	// Relations are the relations of each event to the event before it; the first is empty.
	Relations []Relation
	End       End
}

// Tracer follows many chains in one journal. It is not safe for concurrent use.
type Tracer struct{ x *explainer }

// NewTracer returns a tracer of r. limit bounds the records that are read for all chains together.
func NewTracer(ctx context.Context, r history.Reader, limit int) *Tracer {
	return &Tracer{newExplainer(ctx, r, limit)}
}

// Chain returns the chain behind the event with an index in record seq. It fails if the record is not there
// (history.ErrGone, history.ErrNoRecord) or if the journal cannot be read.
func (t *Tracer) Chain(seq uint64, index int) (*Chain, error) {
	x := t.x
	rec, err := x.j.get(seq)
	if err != nil {
		return nil, err
	}
	all := eventsOf(rec)
	if index < 0 || index >= len(all) {
		return nil, history.ErrNoRecord
	}
	return x.chain(all[index])
}

// EndedBy returns the call of the agent that ended the container whose exit an observation in record seq shows, nil if
// the container ended by itself.
func (t *Tracer) EndedBy(seq uint64, containerID string) (*Event, error) {
	rec, err := t.x.j.get(seq)
	if err != nil {
		return nil, err
	}
	for _, e := range eventsOf(rec) {
		if c := describe.ContainerOf(e.observation(), containerID); c != nil {
			return t.x.endedBy(e, change{what: changeExited, container: c})
		}
	}
	return nil, history.ErrNoRecord
}

// chain follows what led to an event to its end. Each link leads to an earlier record, so there is no cycle.
func (x *explainer) chain(e Event) (*Chain, error) {
	c := &Chain{Events: []Event{e}, Relations: []Relation{""}}
	var next *Event
	for {
		l, end, err := x.behind(e, next)
		switch {
		case err != nil:
			return nil, err
		case end == nil && (l.To.Seq >= e.Seq || len(c.Events) == maxChain):
			end = &End{Kind: Unknown, Seq: e.Seq}
		}
		if end != nil {
			c.End = *end
			c.End.Text = x.endText(end)
			return c, nil
		}
		at := e
		next, e = &at, l.To
		c.Events, c.Relations = append(c.Events, e), append(c.Relations, l.Relation)
	}
}

// sentence describes an event. What it refers to is described first: a call by its request, an observation by the one
// before it.
func (x *explainer) sentence(e Event) string {
	if id := e.text("intent_id"); id != "" {
		if req, _, err := x.decision(id, e); err == nil && req != nil {
			x.describe(*req)
		}
	}
	if e.observation() != nil {
		if before, err := x.observedBefore(e); err == nil && before != nil {
			x.describe(*before)
		}
	}
	return x.describe(e)
}

func (x *explainer) describe(e Event) string { return x.d.Describe(e.ID, e.Author, e.Body) }
