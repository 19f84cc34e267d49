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
	now, pods, whole := d.content, d.parsed, d.valid
	if d.outage != nil {
		now, pods, whole = d.outage, nil, false
	}
	if now == nil {
		return nil
	}
	fact := &journaletv1.ManifestsRead{Source: messages.HTTPSource}
	if d.recorded.Differs(now) {
		if err := feed.Store(ctx, pods, d.recorded.Files[d.shownURL], d.opts.Store, d.opts.Prime); err != nil {
			return d.setSendErr(err)
		}
		fact.Changed = append(fact.Changed, now)
	}
	if whole {
		// What another URL named is wanted until this one has said what is wanted now.
		fact.Changed = append(fact.Changed, d.recorded.RemovedExcept(d.shownURL)...)
	}
	fact.Synced = whole && (!d.recorded.Synced || d.firstRead && len(fact.Changed) > 0)
	if fact.Synced || len(fact.Changed) > 0 {
		if err := d.opts.Sink(ctx, fact); err != nil {
			return d.setSendErr(fmt.Errorf("hand over what changed: %w", err))
		}
		d.report(fact, pods)
		d.recorded.Apply(fact)
	}
	d.firstRead = d.firstRead && !whole
	if d.outage == nil {
		d.parsed = nil
	}
	return d.setSendErr(nil)
}

func (d *Driver) report(fact *journaletv1.ManifestsRead, pods []manifest.Parsed) {
	for _, f := range fact.GetChanged() {
		if f.GetPath() != d.shownURL {
			pods = nil
		}
		feed.Log(d.log, f, pods)
	}
}

func (d *Driver) setSendErr(err error) error {
	d.mu.Lock()
	d.sendErr = err
	d.mu.Unlock()
	return err
}
