package node

import (
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/devices"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What a kubelet had given to pods before the journal began is theirs when they are admitted, and nobody else's until
// then (ADR 070). It ends with a pod that no source names: an orphan's when that has finished, any other's some time
// after all sources are synced.

// ReasonKubeletState is the reason of a pod that waits for what is kept for others.
const ReasonKubeletState = "KubeletStateNotTakenOver"

const (
	// kubeletTimer is the name of the timer that ends what is kept for pods that no source names.
	kubeletTimer = "kubelet"
	// kubeletGrace is how long that takes: by then an orphan, which a pod is after 60 s, is known as one.
	kubeletGrace = 2 * time.Minute
)

// evolveKubeletPods folds what a kubelet had given to pods: the journal has no other pods yet.
func (a *Actor) evolveKubeletPods(found map[string]*journaletv1.KubeletPod) {
	if len(found) > 0 {
		a.state.KubeletPods = maps.Clone(found) // pods are taken out of it; the event is shared
	}
}

// evolveKubeletOrphan folds that a pod is an orphan: what it has is its own until it has finished.
func (a *Actor) evolveKubeletOrphan(uid string) {
	if at, known := slices.BinarySearch(a.state.KubeletOrphans, uid); a.state.KubeletPods[uid] != nil && !known {
		a.state.KubeletOrphans = slices.Insert(a.state.KubeletOrphans, at, uid)
	}
}

// dropKubeletPod folds that nothing is kept for a pod any more: it is decided, or it has ended.
func (a *Actor) dropKubeletPod(uid string) {
	delete(a.state.KubeletPods, uid)
	if at, known := slices.BinarySearch(a.state.KubeletOrphans, uid); known {
		a.state.KubeletOrphans = slices.Delete(a.state.KubeletOrphans, at, at+1)
	}
}

// dropKubeletPods folds that nothing is kept any more for pods that no source names, and that are no orphans.
func (a *Actor) dropKubeletPods() {
	for _, uid := range slices.Sorted(maps.Keys(a.state.KubeletPods)) {
		_, orphan := slices.BinarySearch(a.state.KubeletOrphans, uid)
		if !orphan && !a.known(uid) && a.state.Uids[uid] == nil {
			a.dropKubeletPod(uid)
		}
	}
}

// decideKubeletPods decides on the pods that wait for what is kept for others, once one of these may be decided or
// gone, and sets the timer of those that no source names, once all sources are synced.
func (a *Actor) decideKubeletPods(e actors.Event, emit actors.Emit) error {
	timed := false
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted, *journaletv1.Event_SourceSynced, *journaletv1.Event_UidWithdrawn:
		timed = true
	case *journaletv1.Event_AdmissionRequested, *journaletv1.Event_PodTerminated, *journaletv1.Event_PodFinished:
		if err := a.admitKept(emit); err != nil {
			return err
		}
	case *journaletv1.Event_TimerFired:
		if k.TimerFired.GetName() == kubeletTimer {
			return a.admitKept(emit)
		}
	}
	if !timed || len(a.state.GetKubeletPods()) == 0 || !a.AllSynced() {
		return nil
	}
	if ev := actors.SetTimer(a.state.Timers, kubeletTimer, kubeletGrace); ev != nil {
		return emit(ev)
	}
	return nil
}

// admitKept decides on the pods that wait, if some wait for what is kept for others.
func (a *Actor) admitKept(emit actors.Emit) error {
	for _, uid := range slices.Sorted(maps.Keys(a.state.DeviceWaits)) {
		if a.state.DeviceWaits[uid].GetKept() {
			return a.admitAwaiting(emit)
		}
	}
	return nil
}

// refuse rejects a pod for which CPUs, memory or devices are short. While some are kept for others, it waits instead:
// these may not need them.
func (a *Actor) refuse(q *journaletv1.AdmissionRequested, r *rejection, emit actors.Emit) error {
	others := len(a.state.GetKubeletPods())
	if a.state.KubeletPods[q.GetUid()] != nil {
		others--
	}
	if others == 0 {
		return emit(rejected(q, r))
	}
	message := "waits for what is kept for pods that a kubelet had admitted: " + r.message
	if a.state.DeviceWaits[q.GetUid()].GetMessage() == message {
		return nil
	}
	return emit(messages.NewEvent(&journaletv1.AdmissionDeferred{
		Uid: q.GetUid(), Reason: ReasonKubeletState, Message: message,
	}))
}

// keep returns what a pod had before the journal began. It returns false if it had nothing, or cannot have all of that
// by now: then it gets what any other would get.
func (a *Actor) keep(q *journaletv1.AdmissionRequested) (grant, bool) {
	had := a.state.GetKubeletPods()[q.GetUid()]
	if had == nil {
		return grant{}, false
	}
	alone, ok := a.managers().Keep(a.state.GetExclusiveRequests()[q.GetUid()], had.GetExclusive(), a.takenAfter(q, nil))
	if !ok {
		return grant{}, false
	}
	ids, ok := devices.Keep(q.GetDevices(), a.pools(q, nil), had.GetDevices())
	return grant{devices: ids, alone: alone}, ok
}
