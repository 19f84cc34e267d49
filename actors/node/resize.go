package node

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveResizeRequested records a request. A request that supersedes another keeps the time since when that one waits.
func (a *Actor) evolveResizeRequested(e actors.Event, q *journaletv1.ResizeRequested) {
	s := a.state
	p := s.Pods[q.GetUid()]
	if p == nil || p.GetTerminated() {
		return
	}
	s.Resizes[q.GetUid()] = &journaletv1.WaitingResize{
		Digest: q.GetDigest(), Demand: q.GetDemand(), Priority: q.GetPriority(), Guaranteed: q.GetGuaranteed(),
		Since: s.Resizes[q.GetUid()].GetSince(), RequestId: q.GetRequestId(),
		Infeasible: a.infeasible(p, e.Manifest), ExclusiveRequests: a.requestsAfter(p, e.Manifest),
	}
}

// evolveResizeDecided records what was allocated to a pod, or why its resize is deferred.
func (a *Actor) evolveResizeDecided(e actors.Event, d *journaletv1.ResizeDecided) {
	s := a.state
	w, p := s.Resizes[d.GetUid()], s.Pods[d.GetUid()]
	if w == nil || p == nil {
		return
	}
	if !d.GetAllocated() {
		w.PendingPreemption = false
		deferResize(e, w, d.GetMessage())
		return
	}
	want := a.demandAfter(p, w)
	s.Used.MilliCpu += want.GetMilliCpu() - p.GetDemand().GetMilliCpu()
	s.Used.MemoryBytes += want.GetMemoryBytes() - p.GetDemand().GetMemoryBytes()
	p.Demand, p.ExclusiveRequests = want, w.GetExclusiveRequests()
	delete(s.Resizes, d.GetUid())
}

// deferResize records why a resize waits, and since when.
func deferResize(e actors.Event, w *journaletv1.WaitingResize, message string) {
	w.Message = message
	if w.Since == nil {
		w.Since = timestamppb.New(e.Time)
	}
}

// evolveResizePending reserves what a resize needs, and marks its victims.
func (a *Actor) evolveResizePending(e actors.Event, h *journaletv1.ResizePendingPreemption) {
	a.preempt(h.GetVictims())
	if w := a.state.Resizes[h.GetUid()]; w != nil {
		w.PendingPreemption = true
		deferResize(e, w, h.GetMessage())
	}
}

// demandAfter returns a pod's demand after a resize.
func (a *Actor) demandAfter(p *journaletv1.AdmittedPod, w *journaletv1.WaitingResize) *journaletv1.PodDemand {
	d := proto.CloneOf(p.GetDemand())
	d.MilliCpu, d.MemoryBytes = w.GetDemand().GetMilliCpu(), w.GetDemand().GetMemoryBytes()
	return d
}

// systemCritical is the least priority of a critical pod (API: SystemCriticalPriority). As in the kubelet, only the
// resize of a critical pod preempts others. The kubelet also counts static pods as critical, but never resizes them.
const systemCritical = 2_000_000_000

// reserved returns what a pending resize needs beyond what its pod has; nothing if the pod itself is preempted.
func (a *Actor) reserved(uid string) share {
	w, p := a.state.Resizes[uid], a.state.Pods[uid]
	if !w.GetPendingPreemption() || p.GetPreempted() {
		return share{}
	}
	more := shareOf(a.demandAfter(p, w)).minus(shareOf(p.GetDemand()))
	for r := range more {
		more[r] = max(more[r], 0) // a pod keeps its share until it has shrunk
	}
	return more
}

// waitsForVictims reports whether a resize is pending, and some preempted pods have not terminated yet.
func (a *Actor) waitsForVictims(uid string) bool {
	return a.state.Resizes[uid].GetPendingPreemption() && a.state.GetPreempting() > 0
}

// allocatePending allocates the pending resizes that there is room for now, and returns what the others reserve.
// Resizes come before pending pods, whichever was first: a critical pod that runs must not wait for the victims of
// others.
func (a *Actor) allocatePending(emit actors.Emit) (rest share) {
	for _, uid := range a.waitingResizes() {
		if !a.state.Resizes[uid].GetPendingPreemption() {
			continue
		}
		p := a.state.Pods[uid]
		want := a.demandAfter(p, a.state.Resizes[uid])
		if len(a.shortages(want, a.running().plus(rest).minus(shareOf(p.GetDemand())))) == 0 {
			emit(a.resizeDecided(uid, nil))
		} else if a.state.GetPreempting() > 0 {
			rest = rest.plus(a.reserved(uid))
		}
	}
	return rest
}

// decideResizes decides on the waiting resizes, and emits each answer that differs from the last one. A resize that
// shrinks frees what another one waits for, so it repeats until no further resize fits.
func (a *Actor) decideResizes(emit actors.Emit) {
	for again := true; again; {
		again = false
		for _, uid := range a.waitingResizes() {
			if a.waitsForVictims(uid) || a.state.Pods[uid].GetPreempted() {
				continue
			}
			answer := a.decideResize(uid)
			if answer == nil {
				continue
			}
			again = again || answer.GetResizeDecided().GetAllocated()
			emit(answer)
		}
	}
}

// decideResize returns the decision on a waiting resize; nil if it is the same as the last one.
func (a *Actor) decideResize(uid string) *journaletv1.Event {
	w, p := a.state.Resizes[uid], a.state.Pods[uid]
	if w.GetInfeasible() != "" {
		if w.GetMessage() == w.GetInfeasible() {
			return nil
		}
		return a.resizeDecided(uid, &rejection{corev1.PodReasonInfeasible, w.GetInfeasible()})
	}
	want, mine := a.demandAfter(p, w), shareOf(p.GetDemand()).plus(a.reserved(uid))
	others := a.used().minus(mine)
	r := a.rejectShort(a.shortages(want, others), want, others)
	if r == nil {
		return a.resizeDecided(uid, nil)
	}
	if w.GetPriority() >= systemCritical {
		short := a.shortages(want, a.usedAfterVictims().minus(mine))
		if victims, err := Victims(a.candidates(w.GetPriority(), a.local(uid)), short); err == nil {
			h := &journaletv1.ResizePendingPreemption{
				Uid: uid, FullName: p.GetFullName(), Digest: w.GetDigest(), RequestId: w.GetRequestId(),
				Reason: r.reason, Message: r.message,
			}
			for _, v := range victims {
				h.Victims = append(h.Victims, v.UID)
			}
			return messages.NewEvent(h)
		}
	}
	if w.GetMessage() == r.message && !w.GetPendingPreemption() {
		return nil
	}
	return a.resizeDecided(uid, r)
}

// resizeDecided returns the decision to allocate a waiting resize, or to defer it for r.
func (a *Actor) resizeDecided(uid string, r *rejection) *journaletv1.Event {
	w := a.state.Resizes[uid]
	d := &journaletv1.ResizeDecided{Uid: uid, Digest: w.GetDigest(), Allocated: r == nil, RequestId: w.GetRequestId()}
	if r != nil {
		d.Reason, d.Message = r.reason, r.message
	}
	return messages.NewEvent(d)
}

// waitingResizes returns the pods with a waiting resize in the kubelet's order (sortPendingResizes): first pods that
// need no more than they have, then by priority, by QoS class, by how long they have waited.
func (a *Actor) waitingResizes() []string {
	uids := slices.Sorted(maps.Keys(a.state.Resizes))
	slices.SortStableFunc(uids, func(x, y string) int {
		p, q := a.state.Resizes[x], a.state.Resizes[y]
		return cmp.Or(
			trueFirst(!a.grows(x), !a.grows(y)),
			cmp.Compare(q.GetPriority(), p.GetPriority()),
			trueFirst(p.GetGuaranteed(), q.GetGuaranteed()),
			trueFirst(p.GetSince() != nil, q.GetSince() != nil),
			p.GetSince().AsTime().Compare(q.GetSince().AsTime()),
		)
	})
	return uids
}

// trueFirst compares two booleans: true sorts before false.
func trueFirst(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// grows reports whether a pod's resize needs more than the pod has.
func (a *Actor) grows(uid string) bool {
	want, has := a.demandAfter(a.state.Pods[uid], a.state.Resizes[uid]), a.state.Pods[uid].GetDemand()
	return want.GetMilliCpu() > has.GetMilliCpu() || want.GetMemoryBytes() > has.GetMemoryBytes()
}
