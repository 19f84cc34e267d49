package main

import (
	"context"
	"strings"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// namesBefore is how many records before the first one shown are read for the names of pods: a second at most.
const namesBefore = 500_000

// observeJournal shows the events of a journal's files.
func (a *app) observeJournal(ctx context.Context, o observeOptions) error {
	r, err := a.openJournal(ctx)
	if err != nil {
		return err
	}
	from, err := a.firstShown(ctx, r, o)
	if err != nil {
		return err
	}
	flats := func(seq uint64) ([]messages.Flat, error) {
		rec, err := r.Get(ctx, seq)
		if err != nil {
			return nil, err
		}
		return messages.Flatten(r.Node(), rec), nil
	}
	// The token of a node's name has underscores for dots, and names have none.
	node := strings.ReplaceAll(r.Node(), "_", ".")
	view := fileView(ctx, a, flats)
	show, err := a.printer(node, func() *eventView { return view })
	if err != nil {
		return err
	}
	filter := o.filter
	filter.Node, filter.Record = node, flats
	begin, _ := r.Bounds()
	if !filter.SelectsPods() { // pods may be named before
		begin = max(begin, from-min(from, namesBefore))
	}
	return r.Read(ctx, begin, 0, func(entry history.Entry) error {
		rec, err := entry.Record()
		if err != nil {
			return err
		}
		for _, f := range messages.FlattenLazily(r.Node(), rec) {
			for _, p := range history.NamedPods(f.Message()) {
				view.d.Name(p.GetUid(), p.GetNamespace(), p.GetName())
			}
			wanted, err := filter.Match(&f)
			if err != nil {
				return err
			}
			if !wanted || f.Seq < from || !f.Encode() {
				continue
			}
			if err := show(f); err != nil {
				return err
			}
		}
		return nil
	})
}

// firstShown returns the first record to show.
func (a *app) firstShown(ctx context.Context, r history.Reader, o observeOptions) (uint64, error) {
	if o.filter.Cause > 0 {
		if _, err := r.Get(ctx, o.filter.Cause); err != nil {
			return 0, err
		}
	}
	switch {
	case o.from > 0:
		return o.from, nil
	case o.since > 0:
		return history.SeqAt(ctx, r, a.present().Add(-o.since))
	}
	return o.filter.Cause, nil
}

// fileView returns a view of a journal's files; flats reads a record that is the cause of another.
func fileView(ctx context.Context, a *app, flats func(uint64) ([]messages.Flat, error)) *eventView {
	d := describe.New()
	return &eventView{a: a, ctx: ctx, d: d, colour: a.out.colour(),
		renderer: describe.NewRenderer(d, func(_ context.Context, seq uint64) ([]describe.Line, error) {
			events, err := flats(seq)
			lines := make([]describe.Line, len(events))
			for i := range events {
				lines[i].Flat = events[i]
			}
			return lines, err
		})}
}
