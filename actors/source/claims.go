package source

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
)

// claim is one pod in one file: the file claims the pod's name and UID.
type claim struct {
	path string
	// place is the pod's index in the file.
	place int
	ref   *journaletv1.PodRef
	held  held
}

func (c claim) before(o claim) int {
	return cmp.Or(cmp.Compare(c.path, o.path), cmp.Compare(c.place, o.place))
}

// held is what a file has already of what it claims. The lower one goes first.
type held int

const (
	// heldByPod: the node has this pod from this file.
	heldByPod held = iota - 3
	// heldByFile: the node has another pod of this name from this file, whose content has changed.
	heldByFile
	// heldByContent: the node has just this pod from another file, which may have been renamed.
	heldByContent
	// heldByNone: the file is new, or its pod was ignored so far.
	heldByNone
)

// heldFirst sorts claims such that the file counts whose pod the node has already: a copy of a manifest must neither
// replace the pod that runs, nor hide what is changed in its manifest later. It reads which pods are desired, before
// that is worked out again; before has the claims that the changed files gave up. contents are read only with
// ManifestsRead.held_contents_stay.
func (a *Actor) heldFirst(before, all []claim, contents bool) {
	names := map[string]string{} // the file that has a name
	for _, c := range slices.Concat(before, all) {
		if p := a.state.Pods[c.ref.GetUid()]; p.GetDesired() {
			names[fullName(p.GetPod())] = p.GetPath()
		}
	}
	for i := range all {
		c := &all[i]
		switch p := a.state.Pods[c.ref.GetUid()]; {
		case p.GetDesired() && p.GetPath() == c.path && fullName(p.GetPod()) == fullName(c.ref):
			c.held = heldByPod
		case c.ref.GetApi() == nil && names[fullName(c.ref)] == c.path:
			c.held = heldByFile
		case contents && p.GetDesired() && proto.Equal(p.GetPod(), c.ref):
			c.held = heldByContent
		}
	}
	slices.SortStableFunc(all, func(x, y claim) int { return cmp.Compare(x.held, y.held) })
}

// claims are the claims to each name and UID, by the keys of keysOf. They are derived from SourceState.files, and kept
// so that a change of one file costs what this file holds, not what the whole directory holds.
type claims map[string][]claim

func claimsOf(s *journaletv1.SourceState) claims {
	c := claims{}
	for _, path := range slices.Sorted(maps.Keys(s.Files)) {
		c.add(path, s.Files[path].GetPods())
	}
	return c
}

// keysOf returns what a pod claims. A pod of the API server claims no name: of two objects of one name, one after the
// other, both may be on the node (ADR 051).
func keysOf(ref *journaletv1.PodRef) []string {
	if ref.GetApi() != nil {
		return []string{"uid " + ref.GetUid()}
	}
	return []string{"name " + fullName(ref), "uid " + ref.GetUid()}
}

func (c claims) add(path string, refs []*journaletv1.PodRef) {
	for place, ref := range refs {
		for _, key := range keysOf(ref) {
			c[key] = append(c[key], claim{path: path, place: place, ref: ref})
		}
	}
}

func (c claims) remove(path string, refs []*journaletv1.PodRef) {
	for _, ref := range refs {
		for _, key := range keysOf(ref) {
			c[key] = slices.DeleteFunc(c[key], func(x claim) bool { return x.path == path })
			if len(c[key]) == 0 {
				delete(c, key)
			}
		}
	}
}

// around returns every claim that a change of these pods can affect, ordered by path and place: the claims to their
// names and UIDs, the claims to the names and UIDs of those, and so on.
func (c claims) around(refs []*journaletv1.PodRef) []claim {
	var keys []string
	seen := map[string]bool{}
	reach := func(ref *journaletv1.PodRef) {
		for _, key := range keysOf(ref) {
			if !seen[key] {
				seen[key], keys = true, append(keys, key)
			}
		}
	}
	for _, ref := range refs {
		reach(ref)
	}
	var found []claim
	for len(keys) > 0 {
		for _, x := range c[keys[0]] {
			found = append(found, x)
			reach(x.ref)
		}
		keys = keys[1:]
	}
	slices.SortFunc(found, claim.before)
	// A claim may be found twice: by its name and by its UID.
	return slices.CompactFunc(found, func(x, y claim) bool { return x.before(y) == 0 })
}

// touched is what a read may have changed, and so what is to be decided after it.
type touched struct {
	uids []string
	// ignored are keys of SourceState.ignored.
	ignored []string
	// problems is set if a file that has changed had some, or has some now.
	problems bool
}
