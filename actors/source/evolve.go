package source

import (
	"slices"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Evolve folds one event.
func (a *Actor) Evolve(e actors.Event) error {
	s := a.state
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		a.evolveStarted(k.AgentStarted.GetConfig().GetSources())
	case *journaletv1.Event_ManifestsRead:
		a.evolveRead(k.ManifestsRead)
		s.Synced = s.Synced || k.ManifestsRead.GetSynced()
	case *journaletv1.Event_PodUpdated:
		return a.evolveUpdated(e, k.PodUpdated)
	case *journaletv1.Event_PodFinished:
		switch p := s.Pods[k.PodFinished.GetUid()]; {
		case p != nil && k.PodFinished.GetOrphan():
			// The orphan is gone. The pod's actor receives this source's updates of the UID after that.
		case p != nil:
			p.Stage = journaletv1.SourcePodStage_SOURCE_POD_STAGE_FINISHED
		default:
			// An orphan: it is kept only until PodForgotten.
			s.Pods[k.PodFinished.GetUid()] = &journaletv1.SourcePod{
				Pod:   &journaletv1.PodRef{Uid: k.PodFinished.GetUid()},
				Stage: journaletv1.SourcePodStage_SOURCE_POD_STAGE_FINISHED,
			}
		}
	case *journaletv1.Event_PodForgotten:
		delete(s.Pods, k.PodForgotten.GetUid())
	case *journaletv1.Event_ManifestIgnored:
		if i := s.Ignored[ignoredKey(k.ManifestIgnored.GetPath(), k.ManifestIgnored.GetPod())]; i != nil {
			i.Reported = true
		}
	case *journaletv1.Event_PodsKeptOut:
		s.KeptOut = k.PodsKeptOut.GetPods()
	case *journaletv1.Event_SourceSynced:
		s.SyncedReported = true
	case *journaletv1.Event_UidRequested, *journaletv1.Event_UidWithdrawn, *journaletv1.Event_UidGranted:
		a.evolveUID(e)
	}
	return nil
}

// evolveRead folds changed files, and updates the desired pods.
func (a *Actor) evolveRead(read *journaletv1.ManifestsRead) {
	var before, after []claim
	problems := false
	for _, f := range read.GetChanged() {
		path := f.GetPath()
		problems = problems || len(f.GetProblems())+len(a.state.Files[path].GetProblems()) > 0
		for _, ref := range a.state.Files[path].GetPods() {
			before = append(before, claim{path: path, ref: ref})
		}
		a.claims.remove(path, a.state.Files[path].GetPods())
		keepFile(a.state, f)
		a.claims.add(path, a.state.Files[path].GetPods())
		for _, ref := range a.state.Files[path].GetPods() {
			after = append(after, claim{path: path, ref: ref})
		}
	}
	a.updateDesired(before, after, read)
	a.touched.problems = problems
}

func (a *Actor) evolveUpdated(e actors.Event, u *journaletv1.PodUpdated) error {
	p := a.state.Pods[u.GetPod().GetUid()]
	if p == nil {
		return actors.Illegal(e, journaletv1.SourcePodStage_SOURCE_POD_STAGE_UNSPECIFIED)
	}
	switch u.GetOperation() {
	case journaletv1.PodOperation_POD_OPERATION_ADD, journaletv1.PodOperation_POD_OPERATION_UPDATE:
		p.Stage = journaletv1.SourcePodStage_SOURCE_POD_STAGE_ADDED
		p.SentDigest, p.SentApi = u.GetPod().GetDigest(), u.GetPod().GetApi()
	case journaletv1.PodOperation_POD_OPERATION_REMOVE:
		p.Stage = journaletv1.SourcePodStage_SOURCE_POD_STAGE_REMOVING
	default:
		return actors.Illegal(e, p.Stage)
	}
	return nil
}

func keepFile(s *journaletv1.SourceState, f *journaletv1.ManifestFile) {
	if s.Files[f.GetPath()] = KeepFile(s.Files[f.GetPath()], f); s.Files[f.GetPath()] == nil {
		delete(s.Files, f.GetPath())
	}
}

// KeepFile returns what the source keeps of a file whose content was before and is now; nil for a file that is gone. A
// file that is unreadable, or partly invalid, removes no pod: the pods that it held before stay desired until the file
// is valid again or gone, because a typo must not stop a running pod.
func KeepFile(before, now *journaletv1.ManifestFile) *journaletv1.ManifestFile {
	if len(now.GetPods()) == 0 && len(now.GetProblems()) == 0 && !now.GetUnreadable() {
		return nil
	}
	kept := &journaletv1.ManifestFile{
		Path: now.GetPath(), Pods: slices.Clone(now.GetPods()), Problems: now.GetProblems(), Unreadable: now.GetUnreadable(),
	}
	if len(now.GetProblems()) == 0 && !now.GetUnreadable() {
		return kept
	}
	named := map[string]bool{}
	for _, p := range kept.Pods {
		named[fullName(p)] = true
	}
	for _, p := range before.GetPods() {
		if !named[fullName(p)] {
			kept.Pods = append(kept.Pods, p)
		}
	}
	return kept
}

// updateDesired works out which pods are desired: the first claim to a full name or a UID gets it, by path, or with
// held_names_stay in the order of heldFirst. It visits the pods that the changed files held before or hold now, and the
// pods that share a name or a UID with them.
func (a *Actor) updateDesired(before, after []claim, read *journaletv1.ManifestsRead) {
	s := a.state
	refs := make([]*journaletv1.PodRef, 0, len(before)+len(after))
	for _, c := range slices.Concat(before, after) {
		refs = append(refs, c.ref)
	}
	around := a.claims.around(refs)
	if read.GetHeldNamesStay() {
		a.heldFirst(before, around, read.GetHeldContentsStay())
	}
	a.touched = touched{}
	ignored := map[string]*journaletv1.IgnoredManifest{}
	for _, c := range slices.Concat(before, around) {
		uid, key := c.ref.GetUid(), ignoredKey(c.path, c.ref)
		a.touched.uids = append(a.touched.uids, uid)
		a.touched.ignored = append(a.touched.ignored, key)
		if p := s.Pods[uid]; p != nil {
			p.Desired = false
		}
		if i := s.Ignored[key]; i != nil {
			ignored[key] = i
			delete(s.Ignored, key)
		}
	}
	a.touched.uids = sortedSet(a.touched.uids)
	a.touched.ignored = sortedSet(a.touched.ignored)
	owner := map[string]claim{}
	for _, c := range around {
		if reason, by := taken(owner, c.ref); reason != "" {
			key := ignoredKey(c.path, c.ref)
			if s.Ignored[key] = ignored[key]; s.Ignored[key] == nil {
				s.Ignored[key] = &journaletv1.IgnoredManifest{Ignored: ignore(c, reason, by)}
			}
			continue
		}
		for _, key := range keysOf(c.ref) {
			owner[key] = c
		}
		p := s.Pods[c.ref.GetUid()]
		if p == nil {
			p = &journaletv1.SourcePod{Stage: journaletv1.SourcePodStage_SOURCE_POD_STAGE_NEW}
			s.Pods[c.ref.GetUid()] = p
		}
		p.Pod, p.Path, p.Desired = c.ref, c.path, true
	}
	for _, uid := range a.touched.uids {
		if p := s.Pods[uid]; p != nil && !p.GetDesired() && p.GetStage() == journaletv1.SourcePodStage_SOURCE_POD_STAGE_NEW {
			delete(s.Pods, uid)
		}
	}
}

func sortedSet(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

func taken(owner map[string]claim, ref *journaletv1.PodRef) (reason string, by claim) {
	reasons := []string{"DuplicateName", "DuplicateUID"}
	keys := keysOf(ref)
	for i, key := range keys {
		if c, ok := owner[key]; ok {
			return reasons[len(reasons)-len(keys)+i], c
		}
	}
	return "", claim{}
}

func ignore(c claim, reason string, by claim) *journaletv1.ManifestIgnored {
	what := "the name " + fullName(c.ref)
	if reason == "DuplicateUID" {
		what = "the UID " + c.ref.GetUid()
	}
	why := "which comes first"
	if by.held != heldByNone {
		why = "whose pod the node has"
	}
	return &journaletv1.ManifestIgnored{
		Path: c.path, Pod: c.ref, Reason: reason,
		Message: what + " is taken by " + by.path + ", " + why + ": rename one of the two pods, or remove one",
	}
}

func ignoredKey(path string, ref *journaletv1.PodRef) string { return path + " " + ref.GetUid() }

func fullName(p *journaletv1.PodRef) string { return p.GetNamespace() + "/" + p.GetName() }
