package image

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// fullPause is the longest time between two reports of one full file system: twice the driver's period, and a little.
const fullPause = 11 * time.Minute

// evolveImages folds what changes the images on the node.
func (a *Actor) evolveImages(e actors.Event) {
	s := a.state
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		s.GarbageCollection = k.AgentStarted.GetConfig().GetImageGarbageCollection()
		RecordKubelet(s.Pulled, k.AgentStarted.GetKubeletState())
	case *journaletv1.Event_ImagesObserved:
		a.evolveObserved(e.Time, k.ImagesObserved)
	case *journaletv1.Event_ImageFilesystemFull:
		if e.Time.Sub(s.GetFullAt().AsTime()) > fullPause {
			s.TooLittle = false
		}
		s.FullAt = timestamppb.New(e.Time)
	case *journaletv1.Event_ImagesCollected:
		s.TooLittle = k.ImagesCollected.GetFreedBytes() < k.ImagesCollected.GetWantedBytes()
	case *journaletv1.Event_OperatorPullRequested:
		s.OperatorPulls[k.OperatorPullRequested.GetRequestId()] = k.OperatorPullRequested
	case *journaletv1.Event_OperatorPullDecided:
		delete(s.OperatorPulls, k.OperatorPullDecided.GetRequestId())
	case *journaletv1.Event_ImageRemovalRequested:
		s.OperatorRemovals[k.ImageRemovalRequested.GetRequestId()] = k.ImageRemovalRequested
	case *journaletv1.Event_ImageRemovalDecided:
		delete(s.OperatorRemovals, k.ImageRemovalDecided.GetRequestId())
	}
}

// evolveObserved folds an observation. An image counts as used now if it is in use, or was at the last observation.
func (a *Actor) evolveObserved(at time.Time, o *journaletv1.ImagesObserved) {
	images, now := a.state.Images, timestamppb.New(at)
	named := map[string]bool{}
	for _, image := range o.GetPresent() {
		named[image.GetId()] = true
		r := images[image.GetId()]
		if r == nil {
			r = &journaletv1.ImageRecord{FirstSeen: now, LastUsed: now}
			images[image.GetId()] = r
		}
		a.evolveArrived(r.GetObserved(), image)
		if image.GetUsed() || r.GetObserved().GetUsed() {
			r.LastUsed = now
		}
		r.Observed = image
	}
	for _, id := range o.GetRemoved() {
		delete(images, id)
	}
	if o.GetComplete() {
		maps.DeleteFunc(images, func(id string, _ *journaletv1.ImageRecord) bool { return !named[id] })
	}
}

// evolveArrived ends the back-off of pods that wait for an image which has this name only now. A pull under way may
// have inspected it before.
func (a *Actor) evolveArrived(before, now *journaletv1.ImageObservation) {
	for _, id := range slices.Sorted(maps.Keys(a.state.Waits)) {
		w := a.state.Waits[id]
		names := map[string]bool{w.GetImage(): true, FullName(w.GetImage()): true}
		if !w.GetWaiting() || !w.GetIfNotPresent() || isRequested(before, names) || !isRequested(now, names) {
			continue
		}
		w.Arrived = !w.GetBackingOff()
		w.BackingOff = false
	}
}

// evolveRemoval folds the request of a removal.
func (a *Actor) evolveRemoval(intent string, r *journaletv1.RemoveImage) {
	a.state.Removals[intent] = r.GetImageId()
	if record := a.state.Images[r.GetImageId()]; record != nil {
		record.Removal = intent
	}
}

// evolveRemoved folds the outcome of a removal. An image that stays because it is in use was used now: it is the last
// one to be tried again.
func (a *Actor) evolveRemoved(at time.Time, f *journaletv1.CallFinished) {
	s := a.state
	id := s.Removals[f.GetIntentId()]
	delete(s.Removals, f.GetIntentId())
	s.EndedRemoval = id
	r := s.Images[id]
	switch {
	case r == nil:
	case f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED && !f.GetImageInUse():
		delete(s.Images, id)
	default:
		r.Removal = ""
		if f.GetImageInUse() {
			r.LastUsed = timestamppb.New(at)
		}
	}
}
