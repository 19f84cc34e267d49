package feed

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Recorded is what a source's actor holds when it has handled all that was handed over to it. The zero value is of one that was told nothing.
type Recorded struct {
	// Files are by name, and those that hold neither pods nor problems are not among them. To be changed by the methods only.
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
		t.set(f.GetPath(), fold(t.Files[f.GetPath()], f))
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
	return !proto.Equal(fold(before, now), before)
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

// fold is the source actor's reading of a fact (actors/source keeps files so): a file in doubt takes no pod away. What
// the actor will hold, and not only what was read, tells whether a fact would change anything, also after a restart.
func fold(before, now *journaletv1.ManifestFile) *journaletv1.ManifestFile {
	if len(now.GetPods()) == 0 && len(now.GetProblems()) == 0 && !now.GetUnreadable() {
		return nil
	}
	out := &journaletv1.ManifestFile{
		Path: now.GetPath(), Pods: slices.Clone(now.GetPods()), Problems: now.GetProblems(), Unreadable: now.GetUnreadable(),
	}
	if len(now.GetProblems()) == 0 && !now.GetUnreadable() {
		return out
	}
	named := map[string]bool{}
	for _, p := range now.GetPods() {
		named[p.GetNamespace()+"/"+p.GetName()] = true
	}
	for _, p := range before.GetPods() {
		if !named[p.GetNamespace()+"/"+p.GetName()] {
			out.Pods = append(out.Pods, p)
		}
	}
	return out
}
