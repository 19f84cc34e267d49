package image

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Evolve folds one event.
func (a *Actor) Evolve(e actors.Event) error {
	s := a.state
	if name := actors.FoldTimer(s.Timers, e); name != "" {
		if w := s.Waits[name]; w != nil {
			w.BackingOff = false
		}
	}
	a.evolveImages(e)
	a.evolveReclaim(e)
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_ImagePullRequested:
		a.evolveRequested(k.ImagePullRequested)
	case *journaletv1.Event_ImagePullWithdrawn:
		// Its back-off is forgotten with it: the pod is terminating.
		delete(s.Waits, key(k.ImagePullWithdrawn.GetUid(), k.ImagePullWithdrawn.GetImage()))
	case *journaletv1.Event_PodFinished:
		maps.DeleteFunc(s.Waits, func(_ string, w *journaletv1.ImageWait) bool {
			return w.GetUid() == k.PodFinished.GetUid()
		})
	case *journaletv1.Event_CallRequested:
		if remove := k.CallRequested.GetRemoveImage(); remove != nil {
			a.evolveRemoval(e.ID, remove)
			return nil
		}
		a.evolvePull(e, k.CallRequested.GetPullImage())
	case *journaletv1.Event_ImagePullDecided:
		a.evolveDecided(k.ImagePullDecided)
	case *journaletv1.Event_CallFinished:
		s.EndedRemoval = ""
		if s.Removals[k.CallFinished.GetIntentId()] != "" {
			a.evolveRemoved(e.Time, k.CallFinished)
			return nil
		}
		id := s.Intents[k.CallFinished.GetIntentId()]
		s.Ended = s.Pulls[id]
		delete(s.Pulls, id)
		delete(s.Intents, k.CallFinished.GetIntentId())
		RecordPull(s.Pulled, k.CallFinished, e.Time)
	case *journaletv1.Event_ImagesObserved:
		ForgetImages(s.Pulled, k.ImagesObserved, e.Time)
	}
	return nil
}

// evolveRequested folds that a pod waits for an image, with the credentials of its newest request.
func (a *Actor) evolveRequested(r *journaletv1.ImagePullRequested) {
	id := key(r.GetUid(), r.GetImage())
	w := a.state.Waits[id]
	if w == nil {
		w = &journaletv1.ImageWait{Uid: r.GetUid(), Image: r.GetImage()}
		a.state.Waits[id] = w
	}
	w.Waiting = true
	w.Namespace, w.PullSecrets, w.ServiceAccount = r.GetNamespace(), r.GetPullSecrets(), r.GetServiceAccount()
	w.Api, w.IfNotPresent, w.Pod = r.GetApi(), r.GetIfNotPresent(), r.GetPod()
	if r.GetCredentialsChanged() {
		w.BackOff, w.BackingOff = nil, false
		w.CredentialsChanged = a.state.Pulls[pullKey(w)] != nil
	}
}

// evolvePull folds that a pull is under way. It has the newest credentials of all pods that wait for it.
func (a *Actor) evolvePull(e actors.Event, w *journaletv1.PullImage) {
	s, id := a.state, pullKey(w)
	s.Intents[e.ID] = id
	s.Pulls[id] = &journaletv1.Pull{
		Image: w.GetImage(), IntentId: e.ID, StartedAt: timestamppb.New(e.Time),
		Namespace: w.GetNamespace(), PullSecrets: w.GetPullSecrets(), ServiceAccount: w.GetServiceAccount(),
		Api: w.GetApi(), IfNotPresent: w.GetIfNotPresent(), Pod: w.GetPod(),
	}
	for _, wait := range slices.Sorted(maps.Keys(s.Waits)) {
		if pullKey(s.Waits[wait]) == id {
			s.Waits[wait].CredentialsChanged, s.Waits[wait].Arrived = false, false
		}
	}
}

// evolveDecided ends a pod's wait. After a failure the pod backs off, and keeps waiting.
func (a *Actor) evolveDecided(r *journaletv1.ImagePullDecided) {
	id := key(r.GetUid(), r.GetImage())
	w := a.state.Waits[id]
	if w == nil {
		return
	}
	if r.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		delete(a.state.Waits, id)
		return
	}
	if r.GetRetryAfter() == nil {
		return
	}
	w.BackOff, w.BackingOff = r.GetRetryAfter(), true
}

// nextBackOff returns the delay after one more failure.
func nextBackOff(w *journaletv1.ImageWait) *durationpb.Duration {
	return durationpb.New(min(max(firstBackOff, 2*w.GetBackOff().AsDuration()), maxBackOff))
}
