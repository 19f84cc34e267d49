package image

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Decide answers the pods that wait for finished pulls, and requests the pulls and removals that are due.
func (a *Actor) Decide(in actors.Input, emit actors.Emit) {
	for _, e := range in.Events {
		switch k := e.Body.GetKind().(type) {
		case *journaletv1.Event_CallFinished:
			if a.state.GetEndedRemoval() == "" {
				a.decidePulls(in, k.CallFinished, emit)
			}
		case *journaletv1.Event_ImagePullRequested:
			a.request(k.ImagePullRequested, emit)
		case *journaletv1.Event_TimerFired:
			if w := a.state.Waits[k.TimerFired.GetName()]; w != nil {
				a.pull(w.GetUid(), w.GetImage(), emit)
			}
		case *journaletv1.Event_ImagesObserved:
			a.pullArrived(emit)
		case *journaletv1.Event_PodFinished:
			a.clearTimersOf(k.PodFinished.GetUid(), emit)
		case *journaletv1.Event_ImagePullWithdrawn:
			w := k.ImagePullWithdrawn
			if ev := actors.ClearTimer(a.state.GetTimers(), key(w.GetUid(), w.GetImage())); ev != nil {
				emit(ev)
			}
		}
		a.decideImages(in, e, emit)
	}
}

// clearTimersOf clears the back-off timers of a finished pod.
func (a *Actor) clearTimersOf(uid string, emit actors.Emit) {
	for _, id := range slices.Sorted(maps.Keys(a.state.GetTimers().GetSet())) {
		if owner, _, _ := strings.Cut(id, " "); owner != uid {
			continue
		}
		emit(actors.ClearTimer(a.state.GetTimers(), id))
	}
}

// request requests a pull for a pod that has requested one. Its back-off is over if its credentials have changed.
func (a *Actor) request(r *journaletv1.ImagePullRequested, emit actors.Emit) {
	if r.GetCredentialsChanged() {
		if ev := actors.ClearTimer(a.state.GetTimers(), key(r.GetUid(), r.GetImage())); ev != nil {
			emit(ev)
		}
	}
	a.pull(r.GetUid(), r.GetImage(), emit)
}

// pull requests a pull for a pod that waits for one, unless the pod backs off. A pull that is under way already serves
// this pod too, if both have the same key: one with other credentials, or of a pod with another runtime class, proves
// nothing about this pod. The pull carries the pod that is the first to need it.
func (a *Actor) pull(uid, image string, emit actors.Emit) {
	w := a.state.Waits[key(uid, image)]
	if w == nil || !w.GetWaiting() || w.GetBackingOff() || a.state.Pulls[pullKey(w)] != nil {
		return
	}
	emit(messages.NewEvent(messages.NewCall(&journaletv1.PullImage{
		Image: image, Namespace: w.GetNamespace(), PullSecrets: w.GetPullSecrets(), ServiceAccount: w.GetServiceAccount(),
		Api: w.GetApi(), IfNotPresent: w.GetIfNotPresent(), Pod: w.GetPod(),
	})))
}

// pullArrived requests pulls for the pods whose back-off has ended because their image is now on the node by another
// way. Whether they may have it, the pull finds out (ADR 084).
func (a *Actor) pullArrived(emit actors.Emit) {
	for _, id := range slices.Sorted(maps.Keys(a.state.Waits)) {
		w := a.state.Waits[id]
		if !w.GetWaiting() || w.GetBackingOff() {
			continue
		}
		ev := actors.ClearTimer(a.state.GetTimers(), id)
		if ev == nil {
			continue
		}
		emit(ev)
		a.pull(w.GetUid(), w.GetImage(), emit)
	}
}

// decidePulls emits the outcome of a finished pull for every pod that waits for it, in order of UID. One that failed
// says nothing about pods whose credentials have changed since it began, or whose image has come by another way: for
// them another one is requested.
func (a *Actor) decidePulls(in actors.Input, f *journaletv1.CallFinished, emit actors.Emit) {
	image, ended := a.state.GetEnded().GetImage(), pullKey(a.state.GetEnded())
	took := durationpb.New(in.Time.Sub(a.state.GetEnded().GetStartedAt().AsTime()))
	failed := f.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	var again []*journaletv1.ImageWait
	for _, id := range slices.Sorted(maps.Keys(a.state.Waits)) {
		w := a.state.Waits[id]
		if pullKey(w) != ended || !w.GetWaiting() || w.GetBackingOff() {
			continue
		}
		if failed && (w.GetCredentialsChanged() || w.GetArrived()) {
			again = append(again, w)
			continue
		}
		r := &journaletv1.ImagePullDecided{Uid: w.GetUid(), Image: image, Error: f.GetError(), Message: f.GetMessage()}
		if failed {
			r.RetryAfter = nextBackOff(w)
		} else {
			r.ImageRef, r.Bytes, r.AlreadyPresent = f.GetImageRef(), f.GetImageBytes(), f.GetImagePresent()
			if !r.GetAlreadyPresent() {
				r.Duration = took
			}
		}
		emit(messages.NewEvent(r))
		if r.GetRetryAfter() == nil {
			continue
		}
		if ev := actors.SetTimer(a.state.GetTimers(), id, r.GetRetryAfter().AsDuration()); ev != nil {
			emit(ev)
		}
	}
	for _, w := range again {
		a.pull(w.GetUid(), w.GetImage(), emit)
	}
}
