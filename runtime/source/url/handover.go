package url

import (
	"context"
	"fmt"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// handOver tells what differs from what was told.
func (d *Driver) handOver(ctx context.Context) error {
	now, pods, whole := d.content, d.parsed, d.whole
	if d.outage != nil {
		now, pods, whole = d.outage, nil, false
	}
	if now == nil {
		return nil
	}
	fact := &journaletv1.ManifestsRead{Source: messages.HTTPSource}
	if d.told.News(now) {
		if err := feed.Store(ctx, pods, d.told.Files[d.place], d.opts.Store, d.opts.Prime); err != nil {
			return d.failSend(err)
		}
		fact.Changed = append(fact.Changed, now)
	}
	if whole {
		// What another URL named is wanted until this one has said what is wanted now.
		fact.Changed = append(fact.Changed, d.told.GoneBut(d.place)...)
	}
	fact.Synced = whole && (!d.told.Complete || d.first && len(fact.Changed) > 0)
	if fact.Synced || len(fact.Changed) > 0 {
		if err := d.opts.Sink(ctx, fact); err != nil {
			return d.failSend(fmt.Errorf("hand over what changed: %w", err))
		}
		d.report(fact, pods)
		d.told.Note(fact)
	}
	d.first = d.first && !whole
	if d.outage == nil {
		d.parsed = nil
	}
	return d.failSend(nil)
}

func (d *Driver) report(fact *journaletv1.ManifestsRead, pods []manifest.Parsed) {
	for _, f := range fact.GetChanged() {
		if f.GetPath() != d.place {
			pods = nil
		}
		feed.Report(d.log, f, pods)
	}
}

func (d *Driver) failSend(err error) error {
	d.mu.Lock()
	d.sendErr = err
	d.mu.Unlock()
	return err
}
