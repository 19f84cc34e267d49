package simulation

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// nameBook is what was read of the directory, and which pod has each name since: of several files with one name, the
// one keeps it whose pod is there already (ADR 078).
type nameBook struct {
	files map[string]*journaletv1.ManifestFile // by path
	has   map[string]named                     // by namespace and name
}

// named is a pod of a file.
type named struct{ path, uid, digest string }

func newNameBook() *nameBook {
	return &nameBook{files: map[string]*journaletv1.ManifestFile{}, has: map[string]named{}}
}

// read notes what was read, and who has a name now.
func (b *nameBook) read(k *journaletv1.ManifestsRead) {
	for _, f := range k.GetChanged() {
		if b.files[f.GetPath()] = source.KeepFile(b.files[f.GetPath()], f); b.files[f.GetPath()] == nil {
			delete(b.files, f.GetPath())
		}
	}
	b.has = b.among(b.files)
}

// among returns which pod of these files is to run, by namespace and name: the pod that has the name; else the one of
// the same file; else the first by path.
func (b *nameBook) among(files map[string]*journaletv1.ManifestFile) map[string]named {
	chosen, uids := map[string]named{}, map[string]bool{}
	for _, fits := range []func(was, now named) bool{
		func(was, now named) bool { return was.path == now.path && was.uid == now.uid },
		func(was, now named) bool { return was.path == now.path },
		func(named, named) bool { return true },
	} {
		for _, path := range slices.Sorted(maps.Keys(files)) {
			for _, p := range files[path].GetPods() {
				name := p.GetNamespace() + "/" + p.GetName()
				now := named{path, p.GetUid(), p.GetDigest()}
				if _, taken := chosen[name]; taken || uids[now.uid] || !fits(b.has[name], now) {
					continue
				}
				chosen[name], uids[now.uid] = now, true
			}
		}
	}
	return chosen
}

// oneOfName: no container of a static pod starts while one of another pod with the same namespace and name runs.
func (j *judge) oneOfName(c *container) {
	if !manifest.IsStatic(c.manifest) {
		return
	}
	own := j.sim.world.sandbox(c.sandbox)
	for _, other := range j.sim.world.running() {
		if x := j.sim.world.sandbox(other.sandbox); other.uid != c.uid && x != nil && own != nil && x.pod == own.pod {
			j.broken(oneOfName, c.uid, "%s starts while %s of %s runs", c.id, other.id, other.uid)
		}
	}
}

// nameTaken reports whether another pod has the name under which the world shows a pod.
func (j *judge) nameTaken(uid string) bool {
	return slices.ContainsFunc(j.sim.world.objectsOf(uid).sandboxes, func(x *sandbox) bool {
		return j.history(uid).name == "" && j.isHeld(x.pod.String())
	})
}
