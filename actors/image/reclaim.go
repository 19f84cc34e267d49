package image

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// reasonPressure is the reason of removals that the node has requested.
	reasonPressure = "the node is short of storage"
	// reclaimMinAge is the minimum age of images where none is configured. kubelet: imageMinimumGCAge, 2 min.
	reclaimMinAge = 2 * time.Minute
)

// reclaim removes all unused images that are old enough, since the node is short of storage.
func (a *Actor) reclaim(now time.Time, emit actors.Emit) {
	minAge := reclaimMinAge
	if gc := a.state.GetGarbageCollection(); gc != nil {
		minAge = gc.GetMinAge().AsDuration()
	}
	for _, r := range a.unused() {
		if now.Sub(r.GetFirstSeen().AsTime()) < minAge {
			continue
		}
		remove(r.GetObserved(), reasonPressure, emit)
	}
	a.answerReclaim(emit)
}

// answerReclaim reports to the node that the removals that it requested have ended, if they have.
func (a *Actor) answerReclaim(emit actors.Emit) {
	if a.state.GetReclaim() == nil || len(a.state.GetRemovals()) > 0 {
		return
	}
	emit(messages.NewEvent(proto.CloneOf(a.state.GetReclaim())))
}

// evolveReclaim folds what concerns a request of the node.
func (a *Actor) evolveReclaim(e actors.Event) {
	s := a.state
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_ImageReclaimRequested:
		s.Reclaim = new(journaletv1.ImagesReclaimed)
	case *journaletv1.Event_ImagesReclaimed:
		s.Reclaim = nil
	case *journaletv1.Event_CallRequested:
		r := k.CallRequested.GetRemoveImage()
		if r == nil || s.GetReclaim() == nil {
			return
		}
		s.Reclaim.Images++
		s.Reclaim.Bytes += s.Images[r.GetImageId()].GetObserved().GetBytes()
	}
}
