package source

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveStarted folds which sources are configured in this run. If this one is not, none of its pods is desired any
// more. It is not read until it is configured again, and then starts empty.
func (a *Actor) evolveStarted(sources []string) {
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

// forget ends the actor of a pod and then withdraws its UID, so that the next holder of the UID finds no actor.
func (a *Actor) forget(uid string, requestID uint64, emit actors.Emit) {
	emit(messages.NewEvent(&journaletv1.PodForgotten{Uid: uid, Source: a.state.GetName()}))
	if a.state.GetSeveralSources() {
		a.withdrawUID(uid, requestID, emit)
	}
}

// requestUID requests a UID from the node, since another source may have it.
func (a *Actor) requestUID(uid string, emit actors.Emit) {
	emit(messages.NewEvent(&journaletv1.UidRequested{
		Uid: uid, Source: a.state.GetName(), RequestId: a.state.GetLastUidRequest() + 1,
	}))
}

func (a *Actor) withdrawUID(uid string, requestID uint64, emit actors.Emit) {
	emit(messages.NewEvent(&journaletv1.UidWithdrawn{Uid: uid, Source: a.state.GetName(), RequestId: requestID}))
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
		if a.awaits(k.UidWithdrawn.GetUid(), k.UidWithdrawn.GetRequestId()) {
			delete(s.Pods, k.UidWithdrawn.GetUid())
		}
	case *journaletv1.Event_UidGranted:
		if a.awaits(k.UidGranted.GetUid(), k.UidGranted.GetRequestId()) {
			s.Pods[k.UidGranted.GetUid()].Stage = journaletv1.SourcePodStage_SOURCE_POD_STAGE_UID_GRANTED
		}
	}
}

// awaits reports whether this pod waits for the answer to this request.
func (a *Actor) awaits(uid string, requestID uint64) bool {
	p := a.state.Pods[uid]
	return p.GetStage() == journaletv1.SourcePodStage_SOURCE_POD_STAGE_REQUESTING_UID && p.GetUidRequest() == requestID
}

// decideGranted adds the pod whose UID this source was granted. The grant of a withdrawn request is ignored: the node
// receives the withdrawal too.
func (a *Actor) decideGranted(g *journaletv1.UidGranted, emit actors.Emit) {
	if p := a.state.Pods[g.GetUid()]; p.GetUidRequest() != g.GetRequestId() {
		return
	}
	a.decidePod(g.GetUid(), emit)
}

// decideDeferred reports that a pod does not run as long as another source has its UID.
func (a *Actor) decideDeferred(d *journaletv1.UidDeferred, emit actors.Emit) {
	if !a.awaits(d.GetUid(), d.GetRequestId()) {
		return
	}
	p := a.state.Pods[d.GetUid()]
	emit(messages.NewEvent(&journaletv1.ManifestIgnored{
		Path: p.GetPath(), Pod: p.GetPod(), Reason: "DuplicateUID",
		Message: "the UID " + d.GetUid() + " is taken by source " + d.GetHolder() +
			": it runs when that pod has gone; give one of the two another UID",
	}))
}
