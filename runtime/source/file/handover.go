package file

import (
	"context"
	"maps"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/feed"
)

// handOver emits the changed files, in order of path. A file that cannot be stored stays pending.
func (d *Driver) handOver(ctx context.Context) error {
	if !d.scanned {
		return nil
	}
	var files []feed.File
	for _, name := range slices.Sorted(maps.Keys(d.pending)) {
		files = append(files, d.contentOf(name))
	}
	err := d.sender.Send(ctx, files, true)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sendErr, d.complete = err, d.complete || err == nil
	return err
}

// contentOf returns the current content of a name.
func (d *Driver) contentOf(name string) feed.File {
	if f := d.files[name]; f != nil && f.result != nil {
		return feed.File{ManifestFile: f.result, Pods: f.parsed}
	}
	return feed.File{ManifestFile: &journaletv1.ManifestFile{Path: name}}
}

func (d *Driver) clearPending(name string) {
	delete(d.pending, name)
	if f := d.files[name]; f != nil {
		f.parsed = nil
	}
}
