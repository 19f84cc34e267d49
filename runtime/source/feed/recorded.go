package feed

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Recorded is the state of a source's actor after it has handled all emitted facts. The zero value is the initial
// state.
type Recorded struct {
	// Files are by name, without files that have neither pods nor problems. Only the methods change them.
	Files map[string]*journaletv1.ManifestFile
	// Synced means that a complete read has been emitted.
	Synced bool
}

// Seed adds the source's state in the journal.
func (t *Recorded) Seed(state *journaletv1.SourceState) {
	for name, f := range state.GetFiles() {
		t.set(name, f)
	}
	t.Synced = state.GetSynced()
}

// Apply applies an emitted fact, or one of the journal that the source's state does not have yet.
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

// Added reports whether a file that is recorded has a pod with a UID.
func (t *Recorded) Added(uid string) bool {
	for _, f := range t.Files {
		if slices.ContainsFunc(f.GetPods(), func(p *journaletv1.PodRef) bool { return p.GetUid() == uid }) {
			return true
		}
	}
	return false
}

// Differs reports whether a fact with the current content of a file would change the state.
func (t *Recorded) Differs(now *journaletv1.ManifestFile) bool {
	before := t.Files[now.GetPath()]
	return !proto.Equal(source.KeepFile(before, now), before)
}

// RemovedExcept returns all files except one as removed, in order of name.
func (t *Recorded) RemovedExcept(name string) []*journaletv1.ManifestFile {
	var gone []*journaletv1.ManifestFile
	for _, other := range slices.Sorted(maps.Keys(t.Files)) {
		if other != name {
			gone = append(gone, &journaletv1.ManifestFile{Path: other})
		}
	}
	return gone
}
