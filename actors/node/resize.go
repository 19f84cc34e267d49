package node

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveResizeAsked takes in a request. One that supersedes another waits since the first.
func (a *Actor) evolveResizeAsked(q *journaletv1.ResizeRequested) {
	s := a.state
	p := s.Pods[q.GetUid()]
	if p == nil || p.GetTerminated() {
		return
	}
	s.Resizes[q.GetUid()] = &journaletv1.WaitingResize{
		Digest: q.GetDigest(), Demand: q.GetDemand(), Priority: q.GetPriority(), Guaranteed: q.GetGuaranteed(),
		Since: s.Resizes[q.GetUid()].GetSince(), RequestId: q.GetRequestId(),
	}
}

// evolveResized books what a pod was given, or what it was told.
func (a *Actor) evolveResized(e actors.Event, d *journaletv1.ResizeDecided) {
	s := a.state
	w, p := s.Resizes[d.GetUid()], s.Pods[d.GetUid()]
	if w == nil || p == nil {
		return
	}
	if !d.GetAllocated() {
		w.PendingPreemption = false
		waitsResized(e, w, d.GetMessage())
		return
	}
	want := a.resized(p, w)
	s.Used.MilliCpu += want.GetMilliCpu() - p.GetDemand().GetMilliCpu()
	s.Used.MemoryBytes += want.GetMemoryBytes() - p.GetDemand().GetMemoryBytes()
	p.Demand = want
	delete(s.Resizes, d.GetUid())
}

// waitsResized notes what a pod was told that waits.
func waitsResized(e actors.Event, w *journaletv1.WaitingResize, message string) {
	w.Message = message
	if w.Since == nil {
		w.Since = timestamppb.New(e.Time)
	}
}

// evolveResizeHeld keeps what a pod asks for, and that others end for it.
func (a *Actor) evolveResizeHeld(e actors.Event, h *journaletv1.ResizePendingPreemption) {
	a.preempt(h.GetVictims())
	if w := a.state.Resizes[h.GetUid()]; w != nil {
		w.PendingPreemption = true
		waitsResized(e, w, h.GetMessage())
	}
}

// resized is what a pod would take of the node.
func (a *Actor) resized(p *journaletv1.AdmittedPod, w *journaletv1.WaitingResize) *journaletv1.PodDemand {
	d := proto.CloneOf(p.GetDemand())
	d.MilliCpu, d.MemoryBytes = w.GetDemand().GetMilliCpu(), w.GetDemand().GetMemoryBytes()
	return d
}

// systemCritical is the least priority of a critical pod (API: SystemCriticalPriority). The kubelet has others end for the resize of
// such a pod only; that a pod is static makes it critical there, but never resizable.
const systemCritical = 2_000_000_000

// kept is what is kept for a held resize beside what its pod has; nothing of a pod that is to end itself.
func (a *Actor) kept(uid string) share {
	w, p := a.state.Resizes[uid], a.state.Pods[uid]
	if !w.GetPendingPreemption() || p.GetPreempted() {
		return share{}
	}
	more := shareOf(a.resized(p, w)).minus(shareOf(p.GetDemand()))
	for r := range more {
		more[r] = max(more[r], 0) // what shrinks is the pod's until it has shrunk
	}
	return more
}

// waitsForEnds tells whether a resize is held, and some of the pods are still to end that were told to.
func (a *Actor) waitsForEnds(uid string) bool {
	return a.state.Resizes[uid].GetPendingPreemption() && a.state.GetPreempting() > 0
}

// releaseResizes allocates the held resizes for which there is room now, and gives what is kept for the others. They come before
// held pods, whatever was first: a pod that is critical and runs is not to wait for the end of what others need.
func (a *Actor) releaseResizes(emit actors.Emit) (kept share, err error) {
	for _, uid := range a.waitingResizes() {
		if !a.state.Resizes[uid].GetPendingPreemption() {
			continue
		}
		p := a.state.Pods[uid]
		want := a.resized(p, a.state.Resizes[uid])
		if len(a.lacks(want, a.running().plus(kept).minus(shareOf(p.GetDemand())))) == 0 {
			if err := emit(a.resizeDecided(uid, nil)); err != nil {
				return kept, err
			}
		} else if a.state.GetPreempting() > 0 {
			kept = kept.plus(a.kept(uid))
		}
	}
	return kept, nil
}

// decideResizes answers those that wait for other resources, as far as the answer is another one than before. What one gives
// back may be what another one waits for, so it goes on until nothing fits any more.
func (a *Actor) decideResizes(emit actors.Emit) error {
	for again := true; again; {
		again = false
		for _, uid := range a.waitingResizes() {
			if a.waitsForEnds(uid) || a.state.Pods[uid].GetPreempted() {
				continue
			}
			answer := a.answerResize(uid)
			if answer == nil {
				continue
			}
			again = again || answer.GetResizeDecided().GetAllocated()
			if err := emit(answer); err != nil {
				return err
			}
		}
	}
	return nil
}

// answerResize is the answer to one that waits, nil if it has that already.
func (a *Actor) answerResize(uid string) *journaletv1.Event {
	w, p := a.state.Resizes[uid], a.state.Pods[uid]
	want, mine := a.resized(p, w), shareOf(p.GetDemand()).plus(a.kept(uid))
	others := a.used().minus(mine)
	r := a.outOf(a.lacks(want, others), want, others)
	if r == nil {
		return a.resizeDecided(uid, nil)
	}
	if w.GetPriority() >= systemCritical {
		if victims, err := Victims(a.candidates(w.GetPriority()), a.lacks(want, a.usedAfter().minus(mine))); err == nil {
			h := &journaletv1.ResizePendingPreemption{Uid: uid, Digest: w.GetDigest(), Reason: r.reason, Message: r.message, FullName: p.GetFullName(), RequestId: w.GetRequestId()}
			for _, v := range victims {
				h.Victims = append(h.Victims, v.UID)
			}
			return &journaletv1.Event{Kind: &journaletv1.Event_ResizePendingPreemption{ResizePendingPreemption: h}}
		}
	}
	if w.GetMessage() == r.message && !w.GetPendingPreemption() {
		return nil
	}
	return a.resizeDecided(uid, r)
}

// resizeDecided allocates what a pod waits for, or tells why it cannot be now.
func (a *Actor) resizeDecided(uid string, r *rejection) *journaletv1.Event {
	w := a.state.Resizes[uid]
	d := &journaletv1.ResizeDecided{Uid: uid, Digest: w.GetDigest(), Allocated: r == nil, RequestId: w.GetRequestId()}
	if r != nil {
		d.Reason, d.Message = r.reason, r.message
	}
	return &journaletv1.Event{Kind: &journaletv1.Event_ResizeDecided{ResizeDecided: d}}
}

// waitingResizes are the pods that wait for other resources in the kubelet's order (sortPendingResizes): those that ask for
// no more than they have, then by priority, by QoS class, by how long they have waited.
func (a *Actor) waitingResizes() []string {
	uids := slices.Sorted(maps.Keys(a.state.Resizes))
	slices.SortStableFunc(uids, func(x, y string) int {
		p, q := a.state.Resizes[x], a.state.Resizes[y]
		return cmp.Or(
			first(!a.grows(x), !a.grows(y)),
			cmp.Compare(q.GetPriority(), p.GetPriority()),
			first(p.GetGuaranteed(), q.GetGuaranteed()),
			first(p.GetSince() != nil, q.GetSince() != nil),
			p.GetSince().AsTime().Compare(q.GetSince().AsTime()),
		)
	})
	return uids
}

// first puts what is true before what is not.
func first(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// grows tells whether a pod asks for more than it has.
func (a *Actor) grows(uid string) bool {
	want, has := a.resized(a.state.Pods[uid], a.state.Resizes[uid]), a.state.Pods[uid].GetDemand()
	return want.GetMilliCpu() > has.GetMilliCpu() || want.GetMemoryBytes() > has.GetMemoryBytes()
}
