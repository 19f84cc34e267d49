package file

import (
	"errors"

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

// content is what a file holds.
type content struct {
	result *journaletv1.ManifestFile
	// parsed are the pods of result until it is emitted.
	parsed []manifest.Parsed
}

// reader decodes the files of a driver.
type reader struct{ *Driver }

// Changed implements watch.Reader.
func (r reader) Changed(name, path string, data []byte, st watch.Stamp) bool {
	result, parsed := feed.Decode(name, path, data, manifest.Options{
		NodeName: r.opts.Node, Source: manifest.SourceFile, Classes: r.classes, HasToken: r.opts.HasToken,
		UID: func(namespace, name, uid string) string {
			return r.opts.TakenOver.UID(namespace, name, uid, st.Modified(), r.sender.Added)
		},
	})
	r.set(name, content{result, parsed})
	return true
}

// Unreadable implements watch.Reader. The pods of the file keep running.
func (r reader) Unreadable(name, _ string, err error) bool {
	problem := feed.Unreadable(name, codeUnreadable,
		"cannot be read: "+watch.Cause(err)+"; check the file's permissions and the disk")
	if errors.Is(err, watch.ErrChanging) {
		problem = feed.Unreadable(name, codeChanging,
			"changes while it is read; write manifests under another name and rename them into place")
	}
	r.set(name, content{result: problem})
	return false
}

func (r reader) set(name string, c content) {
	r.contents[name] = c
	r.pending[name] = true
}

// Gone implements watch.Reader.
func (r reader) Gone(name string) {
	delete(r.contents, name)
	r.pending[name] = true
}

// Known implements watch.Reader: many new files must not stop a running pod.
func (r reader) Known(name string) bool { return r.sender.Files[name] != nil }
