package file

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// maxFactBytes is the size at which a reading is split into several facts. With the largest file on top, a fact stays
// below the size of a record (1 MiB).
const maxFactBytes = 256 << 10

// handOver tells what differs from what was told, in order of path. What cannot be stored stays behind and is named by
// the error; the rest goes on.
func (d *Driver) handOver(ctx context.Context) error {
	if !d.scanned {
		return nil
	}
	fact := &journaletv1.ManifestsRead{Source: d.opts.Source}
	size, changed := 0, false
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(d.pending)) {
		now := d.resultOf(name)
		if !d.told.News(now) {
			d.settled(name)
			continue
		}
		if err := d.store(ctx, name); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		fact.Changed, changed = append(fact.Changed, now), true
		if size += proto.Size(now); size >= maxFactBytes {
			if err := d.tell(ctx, fact); err != nil {
				return d.failSend(err)
			}
			fact, size = &journaletv1.ManifestsRead{Source: d.opts.Source}, 0
		}
	}
	// A reading is whole only when all of it has been told.
	fact.Synced = len(failed) == 0 && (!d.told.Complete || d.first && changed)
	if fact.Synced || len(fact.Changed) > 0 {
		if err := d.tell(ctx, fact); err != nil {
			return d.failSend(err)
		}
	}
	d.first = d.first && len(failed) > 0
	return d.failSend(errors.Join(failed...))
}

// resultOf is what a name holds now: a file without pods and problems when it is gone.
func (d *Driver) resultOf(name string) *journaletv1.ManifestFile {
	if f := d.files[name]; f != nil && f.result != nil {
		return f.result
	}
	return &journaletv1.ManifestFile{Path: name}
}

func (d *Driver) settled(name string) {
	delete(d.pending, name)
	if f := d.files[name]; f != nil {
		f.parsed = nil
	}
}

// store keeps the file's new manifests, before any fact names them.
func (d *Driver) store(ctx context.Context, name string) error {
	if f := d.files[name]; f != nil {
		return feed.Store(ctx, f.parsed, d.told.Files[name], d.opts.Store, d.opts.Prime)
	}
	return nil
}

// tell hands over one fact and takes note of what is told now.
func (d *Driver) tell(ctx context.Context, fact *journaletv1.ManifestsRead) error {
	if err := d.opts.Sink(ctx, fact); err != nil {
		return fmt.Errorf("hand over what changed: %w", err)
	}
	d.told.Note(fact)
	for _, f := range fact.GetChanged() {
		d.report(f)
		d.settled(f.GetPath())
	}
	return nil
}

// report logs what was handed over, for who reads logs rather than the journal.
func (d *Driver) report(f *journaletv1.ManifestFile) {
	var parsed []manifest.Parsed
	if read := d.files[f.GetPath()]; read != nil {
		parsed = read.parsed
	}
	feed.Report(d.log, f, parsed)
}

func (d *Driver) failSend(err error) error {
	d.mu.Lock()
	d.sendErr = err
	d.mu.Unlock()
	return err
}
