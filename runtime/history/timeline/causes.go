package timeline

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// explain links each event to the event that led to it, and adds causes that the picture does not hold: causes from
// before its beginning, or of other actors. Added causes have no group. Beyond a quarter of the limit no more are
// added.
func (b *builder) explain(ctx context.Context, r history.Reader, t *Timeline) error {
	most := len(t.Events) + b.o.Limit/4 + 1
	positions := map[uint64][]int{}
	for i, ev := range t.Events {
		positions[ev.Seq] = append(positions[ev.Seq], i)
	}
	for i := 0; i < len(t.Events); i++ { // it grows on the way
		ev := t.Events[i]
		seq := ev.Cause
		if seq == 0 {
			seq = b.results[ev.Seq]
		}
		if seq == 0 || seq >= ev.Seq {
			continue
		}
		ev.Because = pick(t.Events, positions[seq], ev)
		if ev.Because >= 0 || len(t.Events) >= most {
			continue
		}
		found, err := b.fetch(ctx, r, seq, ev)
		if err != nil {
			return err
		}
		if found != nil {
			found.At = round(found.Time.Sub(b.from.time).Seconds() * 1000)
			ev.Because = len(t.Events)
			positions[seq] = append(positions[seq], len(t.Events))
			t.Events = append(t.Events, found)
		}
	}
	b.order(t)
	return nil
}

// pick returns the position of the event that ev responds to: the intent that both are about, else the first event that
// ev's author receives.
func pick(events []*Event, positions []int, ev *Event) int {
	intent := intentOf(ev.event)
	for _, i := range positions {
		if x := events[i]; intent != "" && (x.id == intent || intentOf(x.event) == intent) {
			return i
		}
	}
	if ev.Cause == 0 && intent != "" {
		return -1
	}
	for _, i := range positions {
		if x := events[i]; ev.Cause == 0 && x.author == ev.author || history.Concerns(ev.author, x.author, x.event) {
			return i
		}
	}
	return -1
}

// intentOf returns the id of the intent that an event is about, "" for none.
func intentOf(e *journaletv1.Event) string {
	fd := messages.EventField(e)
	if fd == nil {
		return ""
	}
	return history.Text(e.ProtoReflect().Get(fd).Message(), protoreflect.Name("intent_id"))
}

// fetch returns the event of a record that ev responds to; nil without such an event.
func (b *builder) fetch(ctx context.Context, r history.Reader, seq uint64, ev *Event) (*Event, error) {
	rec, err := r.Get(ctx, seq)
	if errors.Is(err, history.ErrGone) || errors.Is(err, history.ErrNoRecord) {
		return nil, nil //nolint:nilnil // a cause that is gone is no error
	}
	if err != nil {
		return nil, err
	}
	found := eventsOf(rec, 0)
	all := make([]int, len(found))
	for i := range all {
		all[i] = i
	}
	i := pick(found, all, ev)
	if i < 0 {
		return nil, nil //nolint:nilnil // as above
	}
	x := found[i]
	d := b.describe
	if x.event.GetPodObserved() != nil {
		d = describe.New() // the other one remembers later observations, and would describe the differences to them
	}
	x.Text, x.Alert, x.Data = d.Describe(x.id, x.author, x.event), alerts(x.event), x.fields()
	return x, nil
}

// order sorts the events by record again, and adjusts all positions.
func (b *builder) order(t *Timeline) {
	byRecord := make([]int, len(t.Events))
	for i := range byRecord {
		byRecord[i] = i
	}
	slices.SortStableFunc(byRecord, func(x, y int) int {
		if t.Events[x].Seq != t.Events[y].Seq {
			return int(t.Events[x].Seq) - int(t.Events[y].Seq)
		}
		return t.Events[x].Index - t.Events[y].Index
	})
	events, to := make([]*Event, len(t.Events)), make([]int, len(t.Events))
	for i, was := range byRecord {
		events[i], to[was] = t.Events[was], i
	}
	t.Events = events
	moved := func(i *int) {
		if *i >= 0 {
			*i = to[*i]
		}
	}
	for _, ev := range events {
		moved(&ev.Because)
	}
	for _, g := range t.Groups {
		for _, l := range g.Lanes {
			for i := range l.Marks {
				moved(&l.Marks[i])
			}
			for _, s := range l.Spans {
				moved(&s.Event)
				moved(&s.EndEvent)
			}
		}
	}
}
