package node

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A pod that does not fit has pods of lower priority end for it, as few as can be, and is admitted when they have ended
// (ADR 016). The choice is the kubelet's, pkg/kubelet/preemption.

// Candidate is a pod that could end for another one.
type Candidate struct {
	UID      string
	Demand   *journaletv1.PodDemand
	QOS      journaletv1.QosClass
	Priority int32
}

// ErrNoRoom says that not even the end of all candidates makes room.
var ErrNoRoom = errors.New("no set of pods makes room")

// Victims chooses who ends so that nothing is missing any more: of the Guaranteed those that are needed even if all others
// end, then of the Burstable, then of the BestEffort.
func Victims(all []Candidate, short []Shortage) ([]Candidate, error) {
	classes := map[journaletv1.QosClass][]Candidate{}
	for _, c := range all {
		classes[c.QOS] = append(classes[c.QOS], c)
	}
	best, burst := classes[journaletv1.QosClass_QOS_CLASS_BEST_EFFORT], classes[journaletv1.QosClass_QOS_CLASS_BURSTABLE]
	sure := classes[journaletv1.QosClass_QOS_CLASS_GUARANTEED]
	if len(without(short, slices.Concat(best, burst, sure))) > 0 {
		return nil, ErrNoRoom
	}
	sure = nearest(sure, without(short, slices.Concat(best, burst)))
	burst = nearest(burst, without(short, slices.Concat(best, sure)))
	best = nearest(best, without(short, slices.Concat(burst, sure)))
	return slices.Concat(best, burst, sure), nil
}

// without is what is still missing when pods have ended.
func without(short []Shortage, ended []Candidate) []Shortage {
	var left []Shortage
	for _, s := range short {
		for _, c := range ended {
			s.Missing -= shareOf(c.Demand)[s.Resource]
		}
		if s.Missing > 0 {
			left = append(left, s)
		}
	}
	return left
}

// nearest takes, until nothing is missing, the pod whose end leaves the least missing, of two equal ones the smaller, of two
// that are alike the later. There must be enough.
func nearest(from []Candidate, short []Shortage) []Candidate {
	from = slices.Clone(from)
	var taken []Candidate
	for len(short) > 0 && len(from) > 0 {
		at := 0
		for i := range from {
			d, least := distance(from[i].Demand, short), distance(from[at].Demand, short)
			if d < least || d == least && !larger(from[i].Demand, from[at].Demand) {
				at = i
			}
		}
		taken = append(taken, from[at])
		short = without(short, from[at:at+1])
		from[at] = from[len(from)-1]
		from = from[:len(from)-1]
	}
	return taken
}

// distance is how much is left missing when a pod has ended: each resource by its share of what was missing, squared.
func distance(d *journaletv1.PodDemand, short []Shortage) float64 {
	sum := 0.0
	for _, s := range short {
		if left := float64(s.Missing - shareOf(d)[s.Resource]); left > 0 {
			part := left / float64(s.Missing)
			sum += float64(part * part) // rounded, so that no machine fuses the two operations
		}
	}
	return sum
}

func larger(x, y *journaletv1.PodDemand) bool {
	return cmp.Or(cmp.Compare(x.GetMemoryBytes(), y.GetMemoryBytes()), cmp.Compare(x.GetMilliCpu(), y.GetMilliCpu())) > 0
}

// candidates are the pods that may end for one of a priority, those of low priority last: of pods that are alike the last is
// taken.
func (a *Actor) candidates(priority int32) []Candidate {
	var all []Candidate
	for _, uid := range slices.Sorted(maps.Keys(a.state.Pods)) {
		p := a.state.Pods[uid]
		if p.GetTerminated() || p.GetPreempted() || p.GetPriority() >= priority {
			continue
		}
		all = append(all, Candidate{UID: uid, Demand: p.GetDemand(), QOS: p.GetQos(), Priority: p.GetPriority()})
	}
	slices.SortStableFunc(all, func(x, y Candidate) int { return cmp.Compare(y.Priority, x.Priority) })
	return all
}

// admit answers a pod that belongs here, by whether there is room for it or can be made.
func (a *Actor) admit(q *journaletv1.AdmissionRequested, emit actors.Emit) error {
	short := a.lacks(q.GetDemand(), a.usedAfter())
	if !a.portsFree(q.GetDemand()) {
		// Nobody ends for a pod that could not run all the same.
		return emit(decided(q, a.shortage(q.GetDemand())))
	}
	var victims []Candidate
	var err error
	if len(short) > 0 {
		victims, err = Victims(a.candidates(q.GetPriority()), short)
	}
	switch {
	case err != nil:
		return emit(decided(q, a.shortage(q.GetDemand())))
	case len(victims) > 0 || len(a.lacks(q.GetDemand(), a.used())) > 0:
		// Without victims there is room once those have ended that were told to before.
		h := &journaletv1.AdmissionPendingPreemption{Uid: q.GetUid(), FullName: q.GetNamespace() + "/" + q.GetName()}
		for _, v := range victims {
			h.Victims = append(h.Victims, v.UID)
		}
		return emit(&journaletv1.Event{Kind: &journaletv1.Event_AdmissionPendingPreemption{AdmissionPendingPreemption: h}})
	}
	return emit(decided(q, nil))
}

// release allocates the held resizes and then admits the held pods for which there is room now, these first come first. A pod
// that nobody's end can help any more, since the node has become smaller, is rejected.
func (a *Actor) release(emit actors.Emit) error {
	before, err := a.releaseResizes(emit)
	if err != nil {
		return err
	}
	for _, q := range slices.Clone(a.state.PendingPreemption) {
		used := a.running().plus(before)
		short := a.lacks(q.GetDemand(), used)
		if len(short) > 0 && a.state.GetPreempting() > 0 {
			before = before.plus(shareOf(q.GetDemand()))
			continue
		}
		if err := emit(decided(q, a.outOf(short, q.GetDemand(), used))); err != nil {
			return err
		}
	}
	return nil
}

// evolveHeld keeps a pod's place, and that others end for it.
func (a *Actor) evolveHeld(h *journaletv1.AdmissionPendingPreemption) {
	s := a.state
	a.preempt(h.GetVictims())
	q := a.asked(h.GetUid())
	if q == nil {
		return
	}
	s.PendingPreemption = append(s.PendingPreemption, q)
	s.Names[q.GetNamespace()+"/"+q.GetName()] = q.GetUid()
	for _, port := range q.GetDemand().GetHostPorts() {
		a.takePort(port, q.GetUid())
	}
}

// preempt notes that pods end for another one.
func (a *Actor) preempt(uids []string) {
	for _, uid := range uids {
		if p := a.state.Pods[uid]; p != nil && !p.GetTerminated() && !p.GetPreempted() {
			p.Preempted = true
			a.state.Preempting++
		}
	}
}

// unhold gives up the place that was kept for a pod, which is then admitted or not.
func (a *Actor) unhold(uid string) {
	s := a.state
	for _, q := range s.PendingPreemption {
		if q.GetUid() != uid {
			continue
		}
		if name := q.GetNamespace() + "/" + q.GetName(); s.Names[name] == uid {
			delete(s.Names, name)
		}
		for _, port := range q.GetDemand().GetHostPorts() {
			a.freePort(port, uid)
		}
	}
	s.PendingPreemption = slices.DeleteFunc(s.PendingPreemption, func(q *journaletv1.AdmissionRequested) bool { return q.GetUid() == uid })
}
