package file

import (
	"crypto/sha256"
	"errors"
	"io/fs"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/watch"
)

// Codes of the problems of this driver, in addition to the codes of packages manifest and feed.
const (
	codeUnreadable = "unreadable" // the file cannot be read
	codeChanging   = "changing"   // the file changed during every attempt to read it
)

// file is one name in the directory.
type file struct {
	stamp watch.Stamp // at the last read
	racy  bool        // the content may have changed since stamp
	// outdated means that the content was decoded with other runtime classes.
	outdated bool
	sum      [sha256.Size]byte
	// result is the decoded content; nil if the name is gone or not a regular file.
	result *journaletv1.ManifestFile
	// parsed are the pods of result until it is emitted.
	parsed []manifest.Parsed
}

// refresh updates one name. Unless a notification named it, it is read only if its stamp differs.
func (d *Driver) refresh(name string, notified bool) {
	path, ok := d.watch.Join(d.dir, name)
	if !ok {
		return
	}
	f := d.files[name]
	now, err := watch.Stat(path)
	if err == nil && f != nil && f.stamp == now && !f.racy && !notified {
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		d.forget(name)
		return
	}
	if f == nil {
		if !d.hasRoom(name) {
			return
		}
		f = &file{}
		d.files[name] = f
	}
	if err == nil && !now.IsRegular() {
		// As in the kubelet, subdirectories, pipes and devices are ignored.
		d.warnOnce(name, "not a regular file, ignored")
		*f = file{stamp: now}
		d.pending[name] = true
		return
	}
	delete(d.warned, name)
	d.read(f, name, path)
}

// read reads a file, and decodes it unless the content is unchanged.
func (d *Driver) read(f *file, name, path string) {
	data, st, err := watch.Read(path, manifest.DefaultMaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.forget(name)
		return
	case err != nil:
		// Without a stamp, the next reread reads it again.
		*f = file{racy: true, result: unreadable(name, err)}
		d.pending[name] = true
		return
	}
	racy, sum := st.Racy(d.clock.Now()), sha256.Sum256(data)
	if f.result != nil && f.sum == sum && !f.outdated {
		f.stamp, f.racy = st, racy
		return
	}
	result, parsed := feed.Decode(name, path, data, manifest.Options{
		NodeName: d.opts.Node, Source: manifest.SourceFile, Classes: d.classes, HasToken: d.opts.HasToken,
		UID: func(namespace, name, uid string) string {
			return d.opts.TakenOver.UID(namespace, name, uid, st.Modified(), d.sender.Added)
		},
	})
	*f = file{stamp: st, racy: racy, sum: sum, result: result, parsed: parsed}
	d.pending[name] = true
}

// forget removes a name that is gone.
func (d *Driver) forget(name string) {
	delete(d.warned, name)
	if _, ok := d.files[name]; ok || d.sender.Files[name] != nil {
		delete(d.files, name)
		d.pending[name] = true
	}
}

func unreadable(name string, err error) *journaletv1.ManifestFile {
	if errors.Is(err, watch.ErrChanging) {
		return feed.Unreadable(name, codeChanging,
			"changes while it is read; write manifests under another name and rename them into place")
	}
	return feed.Unreadable(name, codeUnreadable,
		"cannot be read: "+watch.Cause(err)+"; check the file's permissions and the disk")
}
