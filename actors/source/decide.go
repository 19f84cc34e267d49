package source

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Decide emits the difference between the desired pods of the source and what it has sent to their actors.
func (a *Actor) Decide(in actors.Input, emit actors.Emit) {
	for _, e := range in.Events {
		switch k := e.Body.GetKind().(type) {
		case *journaletv1.Event_AgentStarted:
			a.decide(touched{
				uids: slices.Sorted(maps.Keys(a.state.Pods)), ignored: slices.Sorted(maps.Keys(a.state.Ignored)), problems: true,
			}, emit)
		case *journaletv1.Event_ManifestsRead:
			// Whatever this read did not touch was decided before.
			a.decide(a.touched, emit)
		case *journaletv1.Event_PodFinished:
			a.decidePod(k.PodFinished.GetUid(), emit)
		case *journaletv1.Event_UidGranted:
			a.decideGranted(k.UidGranted, emit)
		case *journaletv1.Event_UidDeferred:
			a.decideDeferred(k.UidDeferred, emit)
		}
	}
}

// decide decides on what was touched. The UID of an orphan that is no longer kept out is requested first, if it is to
// run.
func (a *Actor) decide(t touched, emit actors.Emit) {
	s := a.state
	for _, key := range t.ignored {
		if i := s.Ignored[key]; i != nil && !i.GetReported() {
			e := messages.NewEvent(i.GetIgnored())
			emit(e)
		}
	}
	for _, uid := range a.order(t.uids) {
		a.decidePod(uid, emit)
	}
	if t.problems {
		a.decideKeptOut(emit)
	}
	if !s.Synced || s.SyncedReported {
		return
	}
	emit(messages.NewEvent(&journaletv1.SourceSynced{Source: s.GetName()}))
}

// decideKeptOut emits which pods problems keep out if these are others.
func (a *Actor) decideKeptOut(emit actors.Emit) {
	if out := keptOut(a.state); !slices.Equal(out, a.state.GetKeptOut()) {
		emit(messages.NewEvent(&journaletv1.PodsKeptOut{Source: a.state.GetName(), Pods: out}))
	}
}

// order sorts removals before additions, since they free names and resources. Additions are sorted by creation time,
// which most manifests leave empty, and then by path.
func (a *Actor) order(uids []string) []string {
	uids = slices.Clone(uids)
	slices.SortStableFunc(uids, func(x, y string) int {
		p, q := a.state.Pods[x], a.state.Pods[y]
		if p.GetDesired() != q.GetDesired() {
			if q.GetDesired() {
				return -1
			}
			return 1
		}
		return cmp.Or(
			p.GetPod().GetCreatedAt().AsTime().Compare(q.GetPod().GetCreatedAt().AsTime()),
			strings.Compare(p.GetPath(), q.GetPath()),
		)
	})
	return uids
}

// decidePod sends one pod's actor what has changed for it, if anything.
func (a *Actor) decidePod(uid string, emit actors.Emit) {
	p := a.state.Pods[uid]
	op := journaletv1.PodOperation_POD_OPERATION_UNSPECIFIED
	switch p.GetStage() {
	case journaletv1.SourcePodStage_SOURCE_POD_STAGE_NEW:
		if a.state.GetSeveralSources() {
			a.requestUID(uid, emit)
			return
		}
		op = journaletv1.PodOperation_POD_OPERATION_ADD
	case journaletv1.SourcePodStage_SOURCE_POD_STAGE_REQUESTING_UID:
		if !p.GetDesired() {
			a.withdrawUID(uid, p.GetUidRequest(), emit)
			return
		}
	case journaletv1.SourcePodStage_SOURCE_POD_STAGE_UID_GRANTED:
		op = journaletv1.PodOperation_POD_OPERATION_ADD
	case journaletv1.SourcePodStage_SOURCE_POD_STAGE_FINISHED:
		if !p.GetDesired() {
			a.forget(uid, p.GetUidRequest(), emit)
			return
		}
		op = journaletv1.PodOperation_POD_OPERATION_ADD
	case journaletv1.SourcePodStage_SOURCE_POD_STAGE_ADDED:
		if !p.GetDesired() {
			op = journaletv1.PodOperation_POD_OPERATION_REMOVE
		} else if p.GetPod().GetDigest() != p.GetSentDigest() || !proto.Equal(p.GetPod().GetApi(), p.GetSentApi()) {
			op = journaletv1.PodOperation_POD_OPERATION_UPDATE
		}
	}
	if op == journaletv1.PodOperation_POD_OPERATION_UNSPECIFIED {
		return
	}
	emit(messages.NewEvent(&journaletv1.PodUpdated{
		Operation: op, Pod: p.GetPod(), Source: a.state.GetName(), Grace: graceOf(op, p.GetPod()),
	}))
}

// graceOf returns the grace period of a pod whose object is gone from the API server: it was deleted by force, and
// nobody waits for its end. Any other pod has its own.
func graceOf(op journaletv1.PodOperation, ref *journaletv1.PodRef) *durationpb.Duration {
	if op != journaletv1.PodOperation_POD_OPERATION_REMOVE || ref.GetApi() == nil {
		return nil
	}
	return durationpb.New(actors.GraceWithoutObject)
}
