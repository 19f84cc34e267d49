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

// evolveResizeAsked takes in a question. One that replaces another waits since the first.
func (a *Actor) evolveResizeAsked(q *journaletv1.ResizeAsked) {
	s := a.state
	p := s.Pods[q.GetUid()]
	if q.GetWithdrawn() || p == nil || p.GetTerminated() {
		delete(s.Resizes, q.GetUid())
		return
	}
	s.Resizes[q.GetUid()] = &journaletv1.WaitingResize{
		Digest: q.GetDigest(), Demand: q.GetDemand(), Priority: q.GetPriority(), Guaranteed: q.GetGuaranteed(),
		Since: s.Resizes[q.GetUid()].GetSince(),
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
		w.Message = d.GetMessage()
		if w.Since == nil {
			w.Since = timestamppb.New(e.Time)
		}
		return
	}
	s.Used.MilliCpu += w.GetDemand().GetMilliCpu() - p.GetDemand().GetMilliCpu()
	s.Used.MemoryBytes += w.GetDemand().GetMemoryBytes() - p.GetDemand().GetMemoryBytes()
	p.Demand = a.resized(p, w)
	delete(s.Resizes, d.GetUid())
}

// resized is what a pod would take of the node.
func (a *Actor) resized(p *journaletv1.AdmittedPod, w *journaletv1.WaitingResize) *journaletv1.PodDemand {
	d := proto.CloneOf(p.GetDemand())
	d.MilliCpu, d.MemoryBytes = w.GetDemand().GetMilliCpu(), w.GetDemand().GetMemoryBytes()
	return d
}

// decideResizes answers those that wait for other resources, as far as the answer is another one than before. What one gives
// back may be what another one waits for, so it goes on until nothing fits any more.
func (a *Actor) decideResizes(emit actors.Emit) error {
	for again := true; again; {
		again = false
		for _, uid := range a.waitingResizes() {
			w, p := a.state.Resizes[uid], a.state.Pods[uid]
			d := &journaletv1.ResizeDecided{Uid: uid, Digest: w.GetDigest()}
			want, others := a.resized(p, w), a.used().minus(shareOf(p.GetDemand()))
			if r := a.outOf(a.lacks(want, others), want, others); r != nil {
				d.Reason, d.Message = r.reason, r.message
				if w.GetMessage() == d.GetMessage() {
					continue
				}
			} else {
				d.Allocated, again = true, true
			}
			if err := emit(&journaletv1.Event{Kind: &journaletv1.Event_ResizeDecided{ResizeDecided: d}}); err != nil {
				return err
			}
		}
	}
	return nil
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
	want, has := a.state.Resizes[uid].GetDemand(), a.state.Pods[uid].GetDemand()
	return want.GetMilliCpu() > has.GetMilliCpu() || want.GetMemoryBytes() > has.GetMemoryBytes()
}
