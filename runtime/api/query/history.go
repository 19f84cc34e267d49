package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// historyRecords is how many of a pod's newest records its report follows from.
	historyRecords = 256
	// maxPodEvents bounds the events of a report.
	maxPodEvents = 50
)

// history tells a pod's newest decisions, what each follows from, and the events in them. Others are named by what is known of them
// now.
func (s *server) history(ctx context.Context, v seen, pods []seen, lines int, r *PodReport) error {
	recs, err := s.Journal.Tail(ctx, messages.ActorFilter(s.Node, v.ref), historyRecords)
	if err != nil {
		return err
	}
	if len(recs) == 0 {
		return nil
	}
	r.FirstSeq, r.LastSeq = recs[0].GetSeq(), recs[len(recs)-1].GetSeq()
	all, err := s.withCauses(ctx, recs)
	if err != nil {
		return err
	}
	d := NewDescriber()
	for _, p := range pods {
		d.Name(p.ref.ID, p.pod.Namespace, p.pod.Name)
	}
	told := map[uint64]string{}
	events := newPodEvents(v.ref)
	for _, rec := range all {
		own := messages.RefOf(rec.GetActor()) == v.ref
		author := messages.RefOf(rec.GetActor())
		for _, f := range bus.Flatten(s.Node, rec) {
			e, err := Event(&f)
			if err != nil {
				return err
			}
			text := d.Describe(f.ID, author, e)
			if own || Concerns(v.ref, author, e) {
				events.note(rec, f.ID, e)
				if told[f.Seq] == "" {
					told[f.Seq] = text
				}
			}
			if own && rec.GetStep() != nil && !quiet(e) {
				r.Decisions = append(r.Decisions, Line{Flat: f, Text: text, CauseText: told[f.Cause]})
			}
		}
	}
	r.Decisions = newest(r.Decisions, lines)
	r.Events = newest(events.list, maxPodEvents)
	return nil
}

// newest are the last n, or fewer.
func newest[T any](list []T, n int) []T { return list[max(len(list)-n, 0):] }

// withCauses puts the records that the steps in recs answer among them, in order. A cause that is
// kept no longer is left out.
func (s *server) withCauses(ctx context.Context, recs []*journaletv1.Record) ([]*journaletv1.Record, error) {
	have := map[uint64]bool{}
	for _, rec := range recs {
		have[rec.GetSeq()] = true
	}
	all := slices.Clone(recs)
	for _, rec := range recs {
		cause := rec.GetStep().GetCause()
		if cause == 0 || have[cause] || cause < s.Journal.First() {
			continue
		}
		have[cause] = true
		c, err := s.Journal.Get(ctx, cause)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			s.Log.Debug("the cause of a record cannot be read", "seq", rec.GetSeq(), "cause", cause, "err", err)
			continue
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *journaletv1.Record) int { return cmp.Compare(a.GetSeq(), b.GetSeq()) })
	return all, nil
}

// Concerns tells whether an actor hears of an event that another one recorded.
func Concerns(ref, author messages.Ref, e *journaletv1.Event) bool {
	hears, everyone := messages.Audience(author, e)
	return everyone || author == ref || slices.Contains(hears, ref)
}

// quiet tells whether an event is bookkeeping that says nothing beside its neighbours.
func quiet(e *journaletv1.Event) bool {
	switch e.GetKind().(type) {
	case *journaletv1.Event_TimerSet, *journaletv1.Event_TimerCleared:
		return true
	}
	return false
}

// lines are a record's events with words, and what they follow from.
func (s *server) lines(ctx context.Context, rec *journaletv1.Record) ([]Line, error) {
	author := messages.RefOf(rec.GetActor())
	d := NewDescriber()
	causeText := ""
	if n := rec.GetStep().GetCause(); n >= s.Journal.First() && n > 0 {
		c, err := s.Journal.Get(ctx, n)
		if err != nil {
			return nil, err
		}
		causeText = d.cause(s.Node, author, c)
	}
	flats := bus.Flatten(s.Node, rec)
	out := make([]Line, 0, len(flats))
	for _, f := range flats {
		e, err := Event(&f)
		if err != nil {
			return nil, err
		}
		out = append(out, Line{Flat: f, Text: d.Describe(f.ID, author, e), CauseText: causeText})
	}
	return out, nil
}

// cause tells of a record what made the actor who act on it.
func (d *Describer) cause(node string, who messages.Ref, rec *journaletv1.Record) string {
	author := messages.RefOf(rec.GetActor())
	for _, f := range bus.Flatten(node, rec) {
		e, err := Event(&f)
		if err != nil {
			continue
		}
		// Every one is described, so that the describer learns of it; the first one that concerns who is told.
		if text := d.Describe(f.ID, author, e); Concerns(who, author, e) {
			return text
		}
	}
	return ""
}
