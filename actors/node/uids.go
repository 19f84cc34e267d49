package node

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// AllSynced reports whether every configured source has been read completely.
func (a *Actor) AllSynced() bool {
	sources := a.state.GetConfig().GetSources()
	return !slices.ContainsFunc(sources, func(s string) bool { return !slices.Contains(a.state.SyncedSources, s) })
}

// evolveSources folds the events of sources, UIDs and orphans.
func (a *Actor) evolveSources(e actors.Event) {
	s := a.state
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		s.SyncedSources = slices.DeleteFunc(s.SyncedSources, func(name string) bool {
			return !slices.Contains(k.AgentStarted.GetConfig().GetSources(), name)
		})
	case *journaletv1.Event_SourceSynced:
		if name := k.SourceSynced.GetSource(); !slices.Contains(s.SyncedSources, name) {
			s.SyncedSources = append(s.SyncedSources, name)
			slices.Sort(s.SyncedSources)
		}
	case *journaletv1.Event_PodsKeptOut:
		a.evolveKeptOut(k.PodsKeptOut)
	case *journaletv1.Event_OrphanFound:
		a.evolveOrphan(k.OrphanFound)
	case *journaletv1.Event_OrphanConfirmed:
		a.dropOrphan(k.OrphanConfirmed.GetUid())
	case *journaletv1.Event_UidRequested:
		c := s.Uids[k.UidRequested.GetUid()]
		if c == nil {
			c = new(journaletv1.UidClaims)
			s.Uids[k.UidRequested.GetUid()] = c
			if a.known(k.UidRequested.GetUid()) && k.UidRequested.GetSource() != messages.FileSource {
				// It was added without a request, when the file source was the only one.
				c.Holder = &journaletv1.UidRequested{Uid: k.UidRequested.GetUid(), Source: messages.FileSource}
			}
		}
		c.Waiting = append(c.Waiting, k.UidRequested)
	case *journaletv1.Event_UidGranted:
		a.evolveGranted(k.UidGranted)
	case *journaletv1.Event_UidWithdrawn:
		a.endClaims(k.UidWithdrawn.GetUid(), func(q *journaletv1.UidRequested) bool {
			return q.GetSource() == k.UidWithdrawn.GetSource() && q.GetRequestId() == k.UidWithdrawn.GetRequestId()
		})
	case *journaletv1.Event_PodFinished:
		a.dropOrphan(k.PodFinished.GetUid())
	}
}

// evolveOrphan folds that a pod is an orphan. A pod of the same name may report a pod that has requested its admission
// meanwhile: that pod is no orphan.
func (a *Actor) evolveOrphan(o *journaletv1.OrphanFound) {
	s := a.state
	if a.known(o.GetUid()) {
		return
	}
	a.evolveKubeletOrphan(o.GetUid())
	if !slices.Contains(s.Orphans, o.GetUid()) {
		s.Orphans = append(s.Orphans, o.GetUid())
	}
	if o.GetName() == "" {
		return
	}
	if s.OrphanNames == nil {
		s.OrphanNames = map[string]string{}
	}
	s.OrphanNames[o.GetUid()] = o.GetNamespace() + "/" + o.GetName()
}

func (a *Actor) dropOrphan(uid string) {
	a.state.Orphans = slices.DeleteFunc(a.state.Orphans, func(o string) bool { return o == uid })
	delete(a.state.OrphanNames, uid)
}

// evolveKeptOut folds which pods problems of a source's manifests keep out.
func (a *Actor) evolveKeptOut(k *journaletv1.PodsKeptOut) {
	s := a.state
	if delete(s.KeptOut, k.GetSource()); len(k.GetPods()) == 0 {
		return
	}
	if s.KeptOut == nil {
		s.KeptOut = map[string]*journaletv1.PodsKeptOut{}
	}
	s.KeptOut[k.GetSource()] = k
}

// KeptOut reports whether an orphan has the name of a pod that only a problem of its manifest keeps out: a typo must
// not stop a running pod (ADR 112). The names of static pods end with the name of the node.
func (a *Actor) KeptOut(fullName string) bool {
	s := a.state
	name, static := strings.CutSuffix(fullName, "-"+s.GetConfig().GetNodeName())
	if !static || s.Names[fullName] != "" || s.Waiting[fullName] != nil {
		return false
	}
	return slices.ContainsFunc(slices.Sorted(maps.Keys(s.GetKeptOut())), func(source string) bool {
		_, found := slices.BinarySearch(s.GetKeptOut()[source].GetPods(), name)
		return found
	})
}

// known reports whether a pod with this UID has requested admission and not finished.
func (a *Actor) known(uid string) bool {
	return a.state.Pods[uid] != nil || a.waitingRequest(uid) != nil
}

func (a *Actor) evolveGranted(g *journaletv1.UidGranted) {
	c := a.state.Uids[g.GetUid()]
	c.Waiting = slices.DeleteFunc(c.GetWaiting(), func(q *journaletv1.UidRequested) bool {
		if q.GetSource() != g.GetSource() || q.GetRequestId() != g.GetRequestId() {
			return false
		}
		c.Holder = q
		return true
	})
}

// endClaims removes every claim to a UID that match accepts.
func (a *Actor) endClaims(uid string, match func(*journaletv1.UidRequested) bool) {
	c := a.state.Uids[uid]
	if c == nil {
		return
	}
	if c.Holder != nil && match(c.Holder) {
		c.Holder = nil
	} else {
		c.Waiting = slices.DeleteFunc(c.Waiting, match)
	}
	if c.Holder == nil && len(c.Waiting) == 0 {
		delete(a.state.Uids, uid)
	}
}

// grant grants a free UID to the first source that waits for it.
func (a *Actor) grant(uid string, emit actors.Emit) {
	c := a.state.Uids[uid]
	if c.GetHolder() != nil || len(c.GetWaiting()) == 0 {
		return
	}
	q := c.GetWaiting()[0]
	emit(messages.NewEvent(&journaletv1.UidGranted{Uid: uid, Source: q.GetSource(), RequestId: q.GetRequestId()}))
}

// decideUID answers a source's request for a UID.
func (a *Actor) decideUID(q *journaletv1.UidRequested, emit actors.Emit) {
	holder := a.state.Uids[q.GetUid()].GetHolder()
	if holder == nil {
		a.grant(q.GetUid(), emit)
		return
	}
	emit(messages.NewEvent(&journaletv1.UidDeferred{
		Uid: q.GetUid(), Source: q.GetSource(), RequestId: q.GetRequestId(), Holder: holder.GetSource(),
	}))
}

// confirmOrphans confirms the orphans once every source is synced, so that they are garbage-collected. One whose name
// another pod has does not wait for that: no source could have it admitted (ADR 113).
func (a *Actor) confirmOrphans(emit actors.Emit) {
	synced := a.AllSynced()
	for _, uid := range slices.Clone(a.state.Orphans) {
		name := a.state.GetOrphanNames()[uid]
		if !synced && a.state.Names[name] == "" || a.state.Uids[uid] != nil || a.KeptOut(name) {
			// A source may name it yet; or has requested it, and adds it next; or would add it, were its manifest right.
			continue
		}
		emit(messages.NewEvent(&journaletv1.OrphanConfirmed{
			Uid: uid, Grace: durationpb.New(actors.GraceWithoutObject),
		}))
	}
}
