package feed

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Recorded is what a source's actor holds when it has handled all that was handed over to it. The zero value is of one
// that was told nothing.
type Recorded struct {
	// Files are by name, and those that hold neither pods nor problems are not among them. To be changed by the methods
	// only.
	Files map[string]*journaletv1.ManifestFile
	// Synced: a whole reading has been told.
	Synced bool
}

// Seed takes in the source's state as the journal has it.
func (t *Recorded) Seed(state *journaletv1.SourceState) {
	for name, f := range state.GetFiles() {
		t.set(name, f)
	}
	t.Synced = state.GetSynced()
}

// Apply takes in a fact that was handed over, or that the journal holds and the source's state does not have yet.
func (t *Recorded) Apply(fact *journaletv1.ManifestsRead) {
	for _, f := range fact.GetChanged() {
		t.set(f.GetPath(), source.KeepFile(t.Files[f.GetPath()], f))
	}
	t.Synced = t.Synced || fact.GetSynced()
}

func (t *Recorded) set(name string, f *journaletv1.ManifestFile) {
	if f == nil {
		delete(t.Files, name)
		return
	}
	if t.Files == nil {
		t.Files = map[string]*journaletv1.ManifestFile{}
	}
	t.Files[name] = f
}

// Differs tells whether a fact with what a file holds now would change anything.
func (t *Recorded) Differs(now *journaletv1.ManifestFile) bool {
	before := t.Files[now.GetPath()]
	return !proto.Equal(source.KeepFile(before, now), before)
}

// RemovedExcept tells, in order of name, that all files but one are gone.
func (t *Recorded) RemovedExcept(name string) []*journaletv1.ManifestFile {
	var gone []*journaletv1.ManifestFile
	for _, other := range slices.Sorted(maps.Keys(t.Files)) {
		if other != name {
			gone = append(gone, &journaletv1.ManifestFile{Path: other})
		}
	}
	return gone
}
