package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

const (
	// historyRecords is how many of a pod's newest records its report covers.
	historyRecords = 256
	// maxPodEvents bounds the events of a report.
	maxPodEvents = 50
)

// history adds a pod's newest decisions to r, each with its cause, and the events in them. Other pods are shown by
// their present names.
func (s *server) history(ctx context.Context, v podView, pods []podView, lines int, r *PodReport) error {
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
	d := describe.New()
	for _, p := range pods {
		d.Name(p.ref.ID, p.pod.Namespace, p.pod.Name)
	}
	causes := map[uint64]string{}
	events := describe.NewPodEvents(v.ref)
	for _, rec := range all {
		own := messages.RefOf(rec.GetActor()) == v.ref
		author := messages.RefOf(rec.GetActor())
		for _, f := range messages.Flatten(s.Node, rec) {
			e, err := history.Event(&f)
			if err != nil {
				return err
			}
			text := d.Describe(f.ID, author, e)
			if own || history.Concerns(v.ref, author, e) {
				events.Add(rec, f.ID, e)
				causes[f.Seq] = cmp.Or(causes[f.Seq], text)
			}
			if own && rec.GetStep() != nil && !describe.IsBookkeeping(e) {
				r.Decisions = append(r.Decisions, describe.Line{Flat: f, Text: text, CauseText: causes[f.Cause]})
			}
		}
	}
	r.Decisions = newest(r.Decisions, lines)
	r.Events = newest(events.List(), maxPodEvents)
	return nil
}

// newest returns the last n elements, or fewer.
func newest[T any](list []T, n int) []T { return list[max(len(list)-n, 0):] }

// withCauses returns recs and the causes of their steps, in order, without causes that retention has cut.
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
			s.Log.Debug("cannot read the cause of a record", "seq", rec.GetSeq(), "cause", cause, "err", err)
			continue
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *journaletv1.Record) int { return cmp.Compare(a.GetSeq(), b.GetSeq()) })
	return all, nil
}

// renderRecord returns a record's events in words, and their cause.
func (s *server) renderRecord(ctx context.Context, rec *journaletv1.Record) ([]describe.Line, error) {
	author := messages.RefOf(rec.GetActor())
	d := describe.New()
	causeText := ""
	if n := rec.GetStep().GetCause(); n >= s.Journal.First() && n > 0 {
		c, err := s.Journal.Get(ctx, n)
		if err != nil {
			return nil, err
		}
		causeText = d.Cause(s.Node, author, c)
	}
	flats := messages.Flatten(s.Node, rec)
	out := make([]describe.Line, 0, len(flats))
	for _, f := range flats {
		e, err := history.Event(&f)
		if err != nil {
			return nil, err
		}
		out = append(out, describe.Line{Flat: f, Text: d.Describe(f.ID, author, e), CauseText: causeText})
	}
	return out, nil
}
