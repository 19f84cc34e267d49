package url

import (
	"context"
	"fmt"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// handOver emits a fact if the content differs from the recorded one.
func (d *Driver) handOver(ctx context.Context) error {
	now, pods, valid := d.content, d.parsed, d.valid
	if d.outage != nil {
		now, pods, valid = d.outage, nil, false
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
	if valid {
		// Pods of another URL stay until this one has a valid response.
		fact.Changed = append(fact.Changed, d.recorded.RemovedExcept(d.shownURL)...)
	}
	fact.Synced = valid && (!d.recorded.Synced || d.firstRead && len(fact.Changed) > 0)
	if fact.Synced || len(fact.Changed) > 0 {
		if err := d.opts.Sink(ctx, fact); err != nil {
			return d.setSendErr(fmt.Errorf("emit the fact: %w", err))
		}
		d.report(fact, pods)
		d.recorded.Apply(fact)
	}
	d.firstRead = d.firstRead && !valid
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
