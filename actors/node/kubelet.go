package node

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/devices"
	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What a kubelet (ADR 070), or an agent whose journal is lost (ADR 072), had given to pods before the journal began is
// theirs when they are admitted, and nobody else's until then. What a pod does not get any more is nobody else's
// either: devices until it ends, CPUs until its containers have left them. What a pod had that no source names is kept
// some time after all sources are synced, an orphan's until that has finished.

// Reasons of a pod that waits for what is kept for others: for pods of a kubelet, and for pods of a lost journal.
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
// directory, and another one what it had: that was given later. So was what a pod does not get any more, since its
// containers have left it.
func (a *Actor) evolveFoundResources(found map[string]*journaletv1.GivenResources) {
	uids := slices.SortedFunc(maps.Keys(found), func(x, y string) int {
		return cmp.Or(cmp.Compare(found[y].GetNumber(), found[x].GetNumber()), cmp.Compare(x, y))
	})
	var later grant
	for _, uid := range uids {
		had, rest := found[uid], grantOf(found[uid].GetRest())
		if !a.HasResources(uid) && !overlap(had, later) {
			if a.state.KubeletPods == nil {
				a.state.KubeletPods = map[string]*journaletv1.KubeletPod{}
			}
			left := grantOf(restOf(rest, later))
			a.state.KubeletPods[uid] = &journaletv1.KubeletPod{
				Exclusive: slices.Concat(had.GetExclusive(), left.exclusive),
				Devices:   slices.Concat(had.GetDevices(), left.devices), Lost: true,
			}
		}
		later.exclusive = slices.Concat(later.exclusive, had.GetExclusive(), rest.exclusive)
		later.devices = slices.Concat(later.devices, had.GetDevices(), rest.devices)
	}
}

// overlap reports whether a pod was given a CPU or device of these.
func overlap(had *journaletv1.GivenResources, others grant) bool {
	both := exclusive.Pod(had.GetExclusive()).CPUs().Intersection(others.exclusive.CPUs())
	return !both.IsEmpty() || sharesDevice(had.GetDevices(), others.devices)
}

// HasResources reports whether the journal has a pod's exclusive resources: it has its admission, or what was found of
// it.
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

// rest returns the CPUs and devices that a pod had before the journal began and does not get; nil: none. Its manifest
// has changed meanwhile, and its containers have them until they are moved or end. Memory is not counted: a container
// that has it keeps it.
func (a *Actor) rest(uid string, gets grant) *journaletv1.RestOfResources {
	kept := a.state.KubeletPods[uid]
	had := grant{devices: kept.GetDevices()}
	if a.state.GetConfig().GetManagers().GetStaticCpus() {
		had.exclusive = kept.GetExclusive()
	}
	return restOf(had, gets)
}

// restOf returns what there is in one grant and not in another one; nil: nothing.
func restOf(had, gets grant) *journaletv1.RestOfResources {
	rest := &journaletv1.RestOfResources{Cpus: had.exclusive.CPUs().Difference(gets.exclusive.CPUs()).String()}
	has := deviceSet(gets.devices)
	for _, c := range had.devices {
		ids := slices.DeleteFunc(slices.Clone(c.GetIds()), func(id string) bool {
			return has[[2]string{c.GetResource(), id}]
		})
		if len(ids) > 0 {
			rest.Devices = append(rest.Devices, &journaletv1.DevicesOfContainer{
				Container: c.GetContainer(), Resource: c.GetResource(), Ids: ids,
			})
		}
	}
	if rest.Cpus == "" && len(rest.Devices) == 0 {
		return nil
	}
	return rest
}

// grantOf returns the rest of what a pod had as a grant. Which container had the CPUs does not matter.
func grantOf(rest *journaletv1.RestOfResources) (g grant) {
	if rest.GetCpus() != "" {
		g.exclusive = exclusive.Pod{{Cpus: rest.GetCpus()}}
	}
	for _, d := range rest.GetDevices() {
		g.devices = append(g.devices, &journaletv1.ContainerDevices{
			Container: d.GetContainer(), Resource: d.GetResource(), Ids: d.GetIds(),
		})
	}
	return g
}

// keepRest folds that a pod gets what it gets: only the rest of what it had stays kept, nil for nothing.
func (a *Actor) keepRest(uid string, rest *journaletv1.RestOfResources) {
	had := a.state.KubeletPods[uid]
	a.dropKubeletPod(uid)
	if had != nil && rest != nil {
		g := grantOf(rest)
		a.state.KubeletPods[uid] = &journaletv1.KubeletPod{Exclusive: g.exclusive, Devices: g.devices, Lost: had.GetLost()}
	}
}

// evolveRest folds that a pod is decided: the rest of what it had stays kept. An earlier version did not name the rest,
// and kept devices only.
func (a *Actor) evolveRest(d *journaletv1.AdmissionDecided) {
	rest := d.GetRest()
	if rest == nil && d.GetAdmitted() {
		rest = restOf(grant{devices: a.state.KubeletPods[d.GetUid()].GetDevices()}, grant{devices: d.GetDevices()})
	}
	a.keepRest(d.GetUid(), rest)
}

// evolveFoundCPUsLeft folds that the containers of a pod have left the CPUs that it had and does not get.
func (a *Actor) evolveFoundCPUsLeft(uid string) {
	if kept := a.state.KubeletPods[uid]; kept != nil && a.state.Pods[uid] != nil {
		a.keepRest(uid, restOf(grant{devices: kept.GetDevices()}, grant{}))
	}
}

// dropKubeletPods folds that nothing is kept any more for pods that no source names, and that are no orphans. What is
// kept for pods that wait for what others had stays with them, but nobody waits for it: they may wait for each other.
func (a *Actor) dropKubeletPods() {
	for _, uid := range slices.Sorted(maps.Keys(a.state.KubeletPods)) {
		_, orphan := slices.BinarySearch(a.state.KubeletOrphans, uid)
		named, waits := a.known(uid) || a.state.Uids[uid] != nil, a.state.DeviceWaits[uid].GetKept()
		switch {
		case orphan, named && !waits:
		case named && a.state.GetConfig().GetKeepsForWaitingPods():
			settled := proto.CloneOf(a.state.KubeletPods[uid]) // the event shares it
			settled.Settled = true
			a.state.KubeletPods[uid] = settled
		default:
			a.dropKubeletPod(uid)
		}
	}
}

// decideKubeletPods decides on the pods that wait for what is kept for others, once one of these others may be decided
// or gone. Once all sources are synced, it sets the timer for the others that no source names.
func (a *Actor) decideKubeletPods(e actors.Event, emit actors.Emit) {
	timed := false
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted, *journaletv1.Event_SourceSynced, *journaletv1.Event_UidWithdrawn:
		timed = true
	case *journaletv1.Event_AdmissionRequested, *journaletv1.Event_PodTerminated, *journaletv1.Event_PodFinished,
		*journaletv1.Event_FoundCpusLeft:
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

// refuse rejects a pod that the node lacks CPUs, memory or devices for. While some of these are kept for other pods,
// the pod waits instead: the others may not need them.
func (a *Actor) refuse(q *journaletv1.AdmissionRequested, r *rejection, emit actors.Emit) {
	reason, whose := a.keptForOthers(q.GetUid())
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

// keptForOthers returns the reason to wait for what is kept for other pods, and whose it is; "" if nothing is kept that
// is free soon. Of pods that others end for, none waits for another one.
func (a *Actor) keptForOthers(uid string) (reason, whose string) {
	for _, other := range slices.Sorted(maps.Keys(a.state.GetKubeletPods())) {
		switch {
		case other == uid, a.stays(other), a.pends(other) && a.pends(uid):
		case a.state.KubeletPods[other].GetLost():
			reason, whose = ReasonLostResources, "pods that were admitted before the journal was lost"
		default:
			reason, whose = ReasonKubeletState, "pods that a kubelet had admitted"
		}
	}
	return reason, whose
}

// stays reports whether what is kept for a pod stays with it, so that nobody waits for that: the pod itself has waited
// too long, or all that is kept are devices that it does not get. CPUs that it does not get are left soon.
func (a *Actor) stays(uid string) bool {
	kept := a.state.KubeletPods[uid]
	return kept.GetSettled() || len(kept.GetExclusive()) == 0 && (a.state.Pods[uid] != nil || a.pends(uid))
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
	kept, ok := a.managers().Keep(a.state.GetExclusiveRequests()[q.GetUid()], had.GetExclusive(), a.takenAfter(q, nil))
	if !ok {
		return grant{}, false
	}
	ids, ok := devices.Keep(q.GetDevices(), a.pools(q, nil), had.GetDevices())
	return grant{devices: ids, exclusive: kept}, ok
}
