package source

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// started takes in which sources are configured in this run. One that is not wants nothing any more; it is not read
// again before it is configured again, and is then as new.
func (a *Actor) started(sources []string) {
	s := a.state
	s.SeveralSources = s.SeveralSources || len(sources) > 1
	if slices.Contains(sources, s.GetName()) {
		return
	}
	s.Files, s.Ignored = map[string]*journaletv1.ManifestFile{}, map[string]*journaletv1.IgnoredManifest{}
	s.Synced, s.SyncedReported = false, false
	a.claims = claims{}
	for _, uid := range slices.Sorted(maps.Keys(s.Pods)) {
		s.Pods[uid].Desired = false
	}
}

// forget ends the actor of a pod, and then gives back its UID: whoever gets that next finds no actor.
func (a *Actor) forget(uid string, number uint64, emit actors.Emit) error {
	if err := emit(&journaletv1.Event{Kind: &journaletv1.Event_PodForgotten{
		PodForgotten: &journaletv1.PodForgotten{Uid: uid, Source: a.state.GetName()},
	}}); err != nil || !a.state.GetSeveralSources() {
		return err
	}
	return a.release(uid, number, emit)
}

// ask asks the node for a UID that another source may have.
func (a *Actor) ask(uid string, emit actors.Emit) error {
	return emit(&journaletv1.Event{Kind: &journaletv1.Event_UidRequested{
		UidRequested: &journaletv1.UidRequested{Uid: uid, Source: a.state.GetName(), RequestId: a.state.GetLastUidRequest() + 1},
	}})
}

func (a *Actor) release(uid string, number uint64, emit actors.Emit) error {
	return emit(&journaletv1.Event{Kind: &journaletv1.Event_UidWithdrawn{
		UidWithdrawn: &journaletv1.UidWithdrawn{Uid: uid, Source: a.state.GetName(), RequestId: number},
	}})
}

func (a *Actor) evolveUID(e actors.Event) {
	s := a.state
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_UidRequested:
		s.LastUidRequest = k.UidRequested.GetRequestId()
		if p := s.Pods[k.UidRequested.GetUid()]; p != nil {
			p.Stage, p.UidRequest = journaletv1.SourcePodStage_SOURCE_POD_STAGE_REQUESTING_UID, s.LastUidRequest
		}
	case *journaletv1.Event_UidWithdrawn:
		if a.waits(k.UidWithdrawn.GetUid(), k.UidWithdrawn.GetRequestId()) {
			delete(s.Pods, k.UidWithdrawn.GetUid())
		}
	case *journaletv1.Event_UidGranted:
		if a.waits(k.UidGranted.GetUid(), k.UidGranted.GetRequestId()) {
			s.Pods[k.UidGranted.GetUid()].Stage = journaletv1.SourcePodStage_SOURCE_POD_STAGE_UID_GRANTED
		}
	}
}

// waits tells whether an answer is to the question that is open for this pod.
func (a *Actor) waits(uid string, number uint64) bool {
	p := a.state.Pods[uid]
	return p.GetStage() == journaletv1.SourcePodStage_SOURCE_POD_STAGE_REQUESTING_UID && p.GetUidRequest() == number
}

// granted adds the pod whose UID is this source's now. An answer to a question that was taken back needs no reply: the
// node hears of that, too.
func (a *Actor) granted(g *journaletv1.UidGranted, emit actors.Emit) error {
	if p := a.state.Pods[g.GetUid()]; p.GetUidRequest() != g.GetRequestId() {
		return nil
	}
	return a.decidePod(g.GetUid(), emit)
}

// deferred tells that a pod is not run as long as another source has its UID.
func (a *Actor) deferred(d *journaletv1.UidDeferred, emit actors.Emit) error {
	if !a.waits(d.GetUid(), d.GetRequestId()) {
		return nil
	}
	p := a.state.Pods[d.GetUid()]
	return emit(&journaletv1.Event{Kind: &journaletv1.Event_ManifestIgnored{ManifestIgnored: &journaletv1.ManifestIgnored{
		Path: p.GetPath(), Pod: p.GetPod(), Reason: "DuplicateUID",
		Message: "the UID " + d.GetUid() + " is taken by source " + d.GetHolder() + ": it runs when that pod has gone; give one of the two another UID",
	}}})
}
