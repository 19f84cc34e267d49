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
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_ImagePullRequested:
		id := key(k.ImagePullRequested.GetUid(), k.ImagePullRequested.GetImage())
		if s.Waits[id] == nil {
			s.Waits[id] = &journaletv1.ImageWait{Uid: k.ImagePullRequested.GetUid(), Image: k.ImagePullRequested.GetImage()}
		}
		s.Waits[id].Waiting = true
	case *journaletv1.Event_ImagePullWithdrawn:
		a.release(k.ImagePullWithdrawn.GetUid(), k.ImagePullWithdrawn.GetImage())
	case *journaletv1.Event_PodFinished:
		for _, id := range a.waitsOf(k.PodFinished.GetUid()) {
			delete(s.Waits, id)
		}
	case *journaletv1.Event_CallRequested:
		image := k.CallRequested.GetPullImage().GetImage()
		s.Intents[e.ID] = image
		s.Pulls[image] = &journaletv1.Pull{Image: image, IntentId: e.ID, StartedAt: timestamppb.New(e.Time)}
	case *journaletv1.Event_ImagePullDecided:
		a.answered(k.ImagePullDecided)
	case *journaletv1.Event_CallFinished:
		image := s.Intents[k.CallFinished.GetIntentId()]
		s.Ended = s.Pulls[image]
		delete(s.Pulls, image)
		delete(s.Intents, k.CallFinished.GetIntentId())
	}
	return nil
}

// answered closes a pod's wait. A failure starts its back-off; the wait goes on behind it.
func (a *Actor) answered(r *journaletv1.ImagePullDecided) {
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

// release ends a pod's wait. What it had to wait before its next try is forgotten with it: the pod
// itself is going away.
func (a *Actor) release(uid, image string) {
	delete(a.state.Waits, key(uid, image))
}

// waitsOf lists what a pod waits for, or is kept for.
func (a *Actor) waitsOf(uid string) []string {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(a.state.Waits)) {
		if a.state.Waits[id].GetUid() == uid {
			ids = append(ids, id)
		}
	}
	return ids
}

// nextBackOff is the delay after one more failure.
func nextBackOff(w *journaletv1.ImageWait) *durationpb.Duration {
	d := w.GetBackOff().AsDuration()
	if d == 0 {
		return durationpb.New(firstBackOff)
	}
	return durationpb.New(min(2*d, maxBackOff))
}
