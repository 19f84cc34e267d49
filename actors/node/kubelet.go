package node

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/devices"
	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What a kubelet (ADR 070), or an agent whose journal is lost (ADR 072), had given to pods before the journal began is
// theirs when they are admitted, and nobody else's until then; devices that a pod does not request any more are nobody
// else's until it ends. It ends with a pod that no source names: an orphan's when that has finished, any other's some
// time after all sources are synced.

// Reasons of a pod that waits for what is kept for others: for pods of a kubelet, and for those of a lost journal.
const (
	ReasonKubeletState  = "KubeletStateNotTakenOver"
	ReasonLostResources = "LostResourcesNotTakenOver"
)

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

// evolveFoundResources folds what pods have that the journal does not have. A pod that has ended may still have its
// directory, and another one what it had: that was given later.
func (a *Actor) evolveFoundResources(found map[string]*journaletv1.GivenResources) {
	uids := slices.SortedFunc(maps.Keys(found), func(x, y string) int {
		return cmp.Or(cmp.Compare(found[y].GetNumber(), found[x].GetNumber()), cmp.Compare(x, y))
	})
	for i, uid := range uids {
		later := func(other string) bool { return overlap(found[uid], found[other]) }
		if a.HasResources(uid) || slices.ContainsFunc(uids[:i], later) {
			continue
		}
		if a.state.KubeletPods == nil {
			a.state.KubeletPods = map[string]*journaletv1.KubeletPod{}
		}
		a.state.KubeletPods[uid] = &journaletv1.KubeletPod{
			Exclusive: found[uid].GetExclusive(), Devices: found[uid].GetDevices(), Lost: true,
		}
	}
}

// overlap reports whether two pods were given the same CPU or device.
func overlap(x, y *journaletv1.GivenResources) bool {
	both := exclusive.Pod(x.GetExclusive()).CPUs().Intersection(exclusive.Pod(y.GetExclusive()).CPUs())
	return !both.IsEmpty() || sharesDevice(x.GetDevices(), y.GetDevices())
}

// HasResources reports whether the journal has what a pod has alone: it has its admission, or what was found of it.
func (a *Actor) HasResources(uid string) bool {
	return a.state.Pods[uid] != nil || a.state.KubeletPods[uid] != nil
}

// found reports whether a pod was on the node before the journal began, by what it had.
func (a *Actor) found(uid string) bool {
	return a.state.KubeletPods[uid] != nil || a.state.FoundUserNamespaces[uid] != nil ||
		a.state.Reservations[uid].GetFound()
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

// keepRest folds that a pod is decided. Devices that it had and does not get stay kept: its manifest has changed
// meanwhile, and its containers have these until they end. CPUs and memory do not: containers move to others at once.
func (a *Actor) keepRest(d *journaletv1.AdmissionDecided) {
	had := a.state.KubeletPods[d.GetUid()]
	a.dropKubeletPod(d.GetUid())
	if had == nil || !d.GetAdmitted() {
		return
	}
	rest, gets := &journaletv1.KubeletPod{Lost: had.GetLost()}, deviceSet(d.GetDevices())
	for _, c := range had.GetDevices() {
		ids := slices.DeleteFunc(slices.Clone(c.GetIds()), func(id string) bool {
			return gets[[2]string{c.GetResource(), id}]
		})
		if len(ids) > 0 {
			rest.Devices = append(rest.Devices, &journaletv1.ContainerDevices{
				Container: c.GetContainer(), Resource: c.GetResource(), Ids: ids,
			})
		}
	}
	if len(rest.GetDevices()) > 0 {
		a.state.KubeletPods[d.GetUid()] = rest
	}
}

// dropKubeletPods folds that nothing is kept any more for pods that no source names, and that are no orphans. Nor is it
// for pods that wait for what is kept for others: these may wait for them.
func (a *Actor) dropKubeletPods() {
	for _, uid := range slices.Sorted(maps.Keys(a.state.KubeletPods)) {
		_, orphan := slices.BinarySearch(a.state.KubeletOrphans, uid)
		named := a.known(uid) || a.state.Uids[uid] != nil
		if !orphan && (!named || a.state.DeviceWaits[uid].GetKept()) {
			a.dropKubeletPod(uid)
		}
	}
}

// decideKubeletPods decides on the pods that wait for what is kept for others, once one of these may be decided or
// gone, and sets the timer of those that no source names, once all sources are synced.
func (a *Actor) decideKubeletPods(e actors.Event, emit actors.Emit) {
	timed := false
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted, *journaletv1.Event_SourceSynced, *journaletv1.Event_UidWithdrawn:
		timed = true
	case *journaletv1.Event_AdmissionRequested, *journaletv1.Event_PodTerminated, *journaletv1.Event_PodFinished:
		a.admitAfterKept(emit)
	case *journaletv1.Event_TimerFired:
		if k.TimerFired.GetName() == kubeletTimer {
			a.admitAfterKept(emit)
			return
		}
	}
	if !timed || len(a.state.GetKubeletPods()) == 0 || !a.AllSynced() {
		return
	}
	if ev := actors.SetTimer(a.state.Timers, kubeletTimer, kubeletGrace); ev != nil {
		emit(ev)
	}
}

// admitAfterKept decides on all pods that may wait for what is kept for others: also on pods that others were preempted
// for.
func (a *Actor) admitAfterKept(emit actors.Emit) {
	a.admitKept(emit)
	if len(a.state.GetPendingPreemption()) > 0 {
		a.admitPending(emit)
	}
}

// admitKept decides on the pods that wait, if some wait for what is kept for others.
func (a *Actor) admitKept(emit actors.Emit) {
	for _, uid := range slices.Sorted(maps.Keys(a.state.DeviceWaits)) {
		if a.state.DeviceWaits[uid].GetKept() {
			a.admitAwaiting(emit)
			return
		}
	}
}

// refuse rejects a pod for which CPUs, memory or devices are short. While some are kept for others, it waits instead:
// these may not need them.
func (a *Actor) refuse(q *journaletv1.AdmissionRequested, r *rejection, emit actors.Emit) {
	reason, whose := a.keptFrom(q.GetUid())
	if reason == "" {
		emit(rejected(q, r))
		return
	}
	message := "waits for what is kept for " + whose + ": " + r.message
	if a.state.DeviceWaits[q.GetUid()].GetMessage() == message {
		return
	}
	emit(messages.NewEvent(&journaletv1.AdmissionDeferred{Uid: q.GetUid(), Reason: reason, Message: message}))
}

// keptFrom returns the reason to wait for what is kept for other pods than one, and whose it is; "" if nothing is kept.
// What is kept for a decided pod stays with it: nobody waits for that.
func (a *Actor) keptFrom(but string) (reason, whose string) {
	for _, uid := range slices.Sorted(maps.Keys(a.state.GetKubeletPods())) {
		switch {
		case uid == but, a.state.Pods[uid] != nil:
		case a.state.KubeletPods[uid].GetLost():
			reason, whose = ReasonLostResources, "pods that were admitted before the journal was lost"
		default:
			reason, whose = ReasonKubeletState, "pods that a kubelet had admitted"
		}
	}
	return reason, whose
}

// waitsForKept reports whether the reason of a pod that waits is what is kept for others.
func waitsForKept(reason string) bool {
	return reason == ReasonKubeletState || reason == ReasonLostResources
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
