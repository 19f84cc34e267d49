package image

import (
	"maps"

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
		// Its back-off is forgotten with it: the pod is terminating.
		delete(s.Waits, key(k.ImagePullWithdrawn.GetUid(), k.ImagePullWithdrawn.GetImage()))
	case *journaletv1.Event_PodFinished:
		maps.DeleteFunc(s.Waits, func(_ string, w *journaletv1.ImageWait) bool {
			return w.GetUid() == k.PodFinished.GetUid()
		})
	case *journaletv1.Event_CallRequested:
		image := k.CallRequested.GetPullImage().GetImage()
		s.Intents[e.ID] = image
		s.Pulls[image] = &journaletv1.Pull{Image: image, IntentId: e.ID, StartedAt: timestamppb.New(e.Time)}
	case *journaletv1.Event_ImagePullDecided:
		a.evolveDecided(k.ImagePullDecided)
	case *journaletv1.Event_CallFinished:
		image := s.Intents[k.CallFinished.GetIntentId()]
		s.Ended = s.Pulls[image]
		delete(s.Pulls, image)
		delete(s.Intents, k.CallFinished.GetIntentId())
	}
	return nil
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
