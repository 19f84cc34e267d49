package file

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/feed"
)

// handOver emits the changed files, in order of path. A file stays pending that cannot be stored, or whose move may not
// be over.
func (d *Driver) handOver(ctx context.Context) error {
	if !d.scanned {
		return nil
	}
	if err := d.handOverRemovals(ctx); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.sendErr = err
		return err
	}
	moving := d.moving()
	var files []feed.File
	for _, name := range slices.Sorted(maps.Keys(d.pending)) {
		if !moving[name] {
			files = append(files, d.contentOf(name))
		}
	}
	err := d.sender.Send(ctx, files, len(moving) == 0)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sendErr, d.complete = err, d.complete || err == nil
	return err
}

// handOverRemovals emits, as gone, the files that were removed and written again before they were read: their pods end
// and start again, as the kubelet does it. The new content follows.
func (d *Driver) handOverRemovals(ctx context.Context) error {
	var files []feed.File
	for _, name := range slices.Sorted(maps.Keys(d.rewritten)) {
		files = append(files, feed.File{ManifestFile: &journaletv1.ManifestFile{Path: name}})
	}
	return d.sender.Send(ctx, files, false)
}

// moves are the files that are gone while a new file names the same pod.
type moves struct {
	since  map[string]time.Time // by the name of the file that is gone
	settle time.Duration
}

// moving returns the names that wait for the end of a move: the file that is gone, and the new one with its pod. In the
// middle of a move, they would replace the pod by the backup's.
func (d *Driver) moving() map[string]bool {
	now, waits, gone := d.clock.Now(), map[string]bool{}, map[string]string{}
	for name := range d.pending {
		if len(d.contentOf(name).GetPods()) > 0 {
			continue
		}
		for _, p := range d.sender.Files[name].GetPods() {
			gone[p.GetNamespace()+"/"+p.GetName()] = name
		}
	}
	for name := range d.pending {
		if len(gone) == 0 || d.sender.Files[name] != nil {
			continue
		}
		for _, p := range d.contentOf(name).GetPods() {
			was, found := gone[p.GetNamespace()+"/"+p.GetName()]
			if !found {
				continue
			}
			if d.moves.since[was].IsZero() {
				d.moves.since[was] = now
			}
			if now.Sub(d.moves.since[was]) < d.moves.settle {
				waits[was], waits[name] = true, true
			}
		}
	}
	maps.DeleteFunc(d.moves.since, func(name string, _ time.Time) bool { return !waits[name] })
	return waits
}

// contentOf returns the current content of a name.
func (d *Driver) contentOf(name string) feed.File {
	if c, ok := d.contents[name]; ok {
		return feed.File{ManifestFile: c.result, Pods: c.parsed}
	}
	return feed.File{ManifestFile: &journaletv1.ManifestFile{Path: name}}
}

func (d *Driver) clearPending(name string) {
	if d.rewritten[name] {
		delete(d.rewritten, name)
		return // its content follows
	}
	delete(d.pending, name)
	if c, ok := d.contents[name]; ok {
		d.contents[name] = content{result: c.result}
	}
}
