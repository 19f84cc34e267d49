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

// maxFactBytes is the size at which changes are split into several facts. With the largest file added, a fact stays
// below the size of a record (1 MiB).
const maxFactBytes = 256 << 10

// handOver emits the changed files, in order of path. A file that cannot be stored stays pending and is named by the
// error; the others are emitted.
func (d *Driver) handOver(ctx context.Context) error {
	if !d.scanned {
		return nil
	}
	fact := &journaletv1.ManifestsRead{Source: d.opts.Source}
	size, changed := 0, false
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(d.pending)) {
		now := d.contentOf(name)
		if !d.recorded.Differs(now) {
			d.clearPending(name)
			continue
		}
		if err := d.store(ctx, name); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		fact.Changed, changed = append(fact.Changed, now), true
		if size += proto.Size(now); size >= maxFactBytes {
			if err := d.emit(ctx, fact); err != nil {
				return d.setSendErr(err)
			}
			fact, size = &journaletv1.ManifestsRead{Source: d.opts.Source}, 0
		}
	}
	// A read is complete only when all of it has been emitted.
	fact.Synced = len(failed) == 0 && (!d.recorded.Synced || d.firstRead && changed)
	if fact.Synced || len(fact.Changed) > 0 {
		if err := d.emit(ctx, fact); err != nil {
			return d.setSendErr(err)
		}
	}
	d.firstRead = d.firstRead && len(failed) > 0
	return d.setSendErr(errors.Join(failed...))
}

// contentOf returns the current content of a name: without pods and problems if the file is gone.
func (d *Driver) contentOf(name string) *journaletv1.ManifestFile {
	if f := d.files[name]; f != nil && f.result != nil {
		return f.result
	}
	return &journaletv1.ManifestFile{Path: name}
}

func (d *Driver) clearPending(name string) {
	delete(d.pending, name)
	if f := d.files[name]; f != nil {
		f.parsed = nil
	}
}

// store stores the file's new manifests, before a fact has them.
func (d *Driver) store(ctx context.Context, name string) error {
	if f := d.files[name]; f != nil {
		return feed.Store(ctx, f.parsed, d.recorded.Files[name], d.opts.Store, d.opts.Prime)
	}
	return nil
}

// emit emits one fact and applies it to the recorded state.
func (d *Driver) emit(ctx context.Context, fact *journaletv1.ManifestsRead) error {
	if err := d.opts.Sink(ctx, fact); err != nil {
		return fmt.Errorf("emit the fact: %w", err)
	}
	d.recorded.Apply(fact)
	for _, f := range fact.GetChanged() {
		d.report(f)
		d.clearPending(f.GetPath())
	}
	return nil
}

// report logs an emitted file.
func (d *Driver) report(f *journaletv1.ManifestFile) {
	var parsed []manifest.Parsed
	if read := d.files[f.GetPath()]; read != nil {
		parsed = read.parsed
	}
	feed.Log(d.log, f, parsed)
}

func (d *Driver) setSendErr(err error) error {
	d.mu.Lock()
	d.sendErr = err
	d.mu.Unlock()
	return err
}
