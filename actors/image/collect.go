package image

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// ageTimer is set while an unused image will be too old at some time.
	ageTimer = "maximum-age"
	// ageRetry is the pause before the removal of an image that is too old is tried again.
	// kubelet: image garbage collection every 5 min.
	ageRetry = 5 * time.Minute
	// reasonSpace is the reason of removals for space.
	reasonSpace = "image garbage collection"
)

// decideImages emits what follows from what is on the node: removals for space and for age, and the outcomes of
// operators' requests.
func (a *Actor) decideImages(in actors.Input, e actors.Event, emit actors.Emit) {
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_ImageFilesystemFull:
		a.collect(in.Time, k.ImageFilesystemFull, emit)
	case *journaletv1.Event_ImageReclaimRequested:
		a.reclaim(in.Time, emit)
	case *journaletv1.Event_AgentStarted, *journaletv1.Event_ImagesObserved:
		a.watchAge(in.Time, emit)
	case *journaletv1.Event_TimerFired:
		if k.TimerFired.GetName() == ageTimer {
			a.expire(in.Time, emit)
			return
		}
	case *journaletv1.Event_OperatorPullRequested:
		a.operatorPull(k.OperatorPullRequested, emit)
	case *journaletv1.Event_ImageRemovalRequested:
		a.operatorRemoval(k.ImageRemovalRequested, emit)
	case *journaletv1.Event_CallFinished:
		if a.state.GetEndedRemoval() == "" {
			a.operatorPulled(in, k.CallFinished, emit)
			return
		}
		a.operatorRemoved(k.CallFinished, emit)
		a.answerReclaim(emit)
		a.watchAge(in.Time, emit)
	}
}

// unused returns the images that may be removed: the least recently used first, then the first seen.
func (a *Actor) unused() []*journaletv1.ImageRecord {
	requested := a.requested()
	var all []*journaletv1.ImageRecord
	for _, id := range slices.Sorted(maps.Keys(a.state.Images)) {
		r := a.state.Images[id]
		o := r.GetObserved()
		if r.GetRemoval() == "" && !o.GetUsed() && !o.GetPinned() && !isRequested(o, requested) {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(x, y *journaletv1.ImageRecord) int {
		return cmp.Or(x.GetLastUsed().AsTime().Compare(y.GetLastUsed().AsTime()),
			x.GetFirstSeen().AsTime().Compare(y.GetFirstSeen().AsTime()))
	})
	return all
}

// collect removes unused images until the low threshold is reached. That it frees too little is reported once, until
// the file system was not full for a while.
func (a *Actor) collect(now time.Time, full *journaletv1.ImageFilesystemFull, emit actors.Emit) {
	gc := a.state.GetGarbageCollection()
	if gc == nil {
		return
	}
	// The capacity first, so that no product overflows.
	free := full.GetCapacityBytes() / 100 * int64(100-min(gc.GetLowPercent(), 100))
	out := &journaletv1.ImagesCollected{WantedBytes: free - full.GetAvailableBytes() - a.beingRemoved()}
	var victims []*journaletv1.ImageRecord
	for _, r := range a.unused() {
		if out.GetFreedBytes() >= out.GetWantedBytes() {
			break
		}
		if now.Sub(r.GetFirstSeen().AsTime()) < gc.GetMinAge().AsDuration() {
			continue
		}
		victims = append(victims, r)
		out.Images = append(out.Images, r.GetObserved().GetId())
		out.FreedBytes += r.GetObserved().GetBytes()
	}
	if len(victims) == 0 && (out.GetWantedBytes() <= 0 || a.state.GetTooLittle()) {
		return
	}
	emit(messages.NewEvent(out))
	for _, r := range victims {
		remove(r.GetObserved(), reasonSpace, emit)
	}
}

// beingRemoved returns the size of the images whose removal is under way.
func (a *Actor) beingRemoved() int64 {
	var sum int64
	for _, id := range slices.Sorted(maps.Keys(a.state.Images)) {
		if r := a.state.Images[id]; r.GetRemoval() != "" {
			sum += r.GetObserved().GetBytes()
		}
	}
	return sum
}

func remove(o *journaletv1.ImageObservation, reason string, emit actors.Emit) {
	work := &journaletv1.RemoveImage{ImageId: o.GetId(), Name: NameOf(o), Reason: reason}
	emit(messages.NewEvent(messages.NewCall(work)))
}

// watchAge sets the timer for the first image that will be too old, and clears a timer that is too late or not needed.
// A later use of an image only postpones that time, so a timer that fires early is set again.
func (a *Actor) watchAge(now time.Time, emit actors.Emit) {
	wait, needed := a.untilTooOld(now)
	timers := a.state.GetTimers()
	if set := timers.GetSet()[ageTimer]; set != nil {
		due := set.GetSetAt().AsTime().Add(set.GetDuration().AsDuration())
		if needed && !due.After(now.Add(wait+ageRetry)) {
			return
		}
		emit(actors.ClearTimer(timers, ageTimer))
	}
	if !needed {
		return
	}
	emit(actors.SetTimer(timers, ageTimer, wait))
}

// untilTooOld returns the time until the first unused image is too old, at least ageRetry; false if none will be.
func (a *Actor) untilTooOld(now time.Time) (time.Duration, bool) {
	maxAge := a.state.GetGarbageCollection().GetMaxAge().AsDuration()
	images := a.unused()
	if maxAge <= 0 || len(images) == 0 {
		return 0, false
	}
	return max(maxAge-now.Sub(images[0].GetLastUsed().AsTime()), ageRetry), true
}

// expire removes the images that were not used for longer than the maximum age.
func (a *Actor) expire(now time.Time, emit actors.Emit) {
	maxAge := a.state.GetGarbageCollection().GetMaxAge().AsDuration()
	for _, r := range a.unused() {
		unused := now.Sub(r.GetLastUsed().AsTime())
		if maxAge <= 0 || unused < maxAge {
			break
		}
		remove(r.GetObserved(), "not used for "+days(unused), emit)
	}
	a.watchAge(now, emit)
}

// days returns a duration as people read it.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%d days", d/day)
}
