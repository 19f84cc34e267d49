package node

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A pod that does not fit preempts pods of lower priority, as few as possible, and is admitted when they have
// terminated (ADR 016). The choice of victims is the kubelet's (pkg/kubelet/preemption).

// Candidate is a pod that could be preempted.
type Candidate struct {
	UID      string
	Demand   *journaletv1.PodDemand
	QOS      journaletv1.QosClass
	Priority int32
}

// ErrNoRoom reports that not even the preemption of all candidates makes room.
var ErrNoRoom = errors.New("no set of pods makes room")

// Victims chooses the pods to preempt so that nothing is short any more: first the Guaranteed pods that are needed
// even if all other candidates are preempted, then Burstable pods, then BestEffort pods. It returns ErrNoRoom if all
// candidates together do not suffice.
func Victims(all []Candidate, short []Shortage) ([]Candidate, error) {
	classes := map[journaletv1.QosClass][]Candidate{}
	for _, c := range all {
		classes[c.QOS] = append(classes[c.QOS], c)
	}
	bestEffort := classes[journaletv1.QosClass_QOS_CLASS_BEST_EFFORT]
	burstable := classes[journaletv1.QosClass_QOS_CLASS_BURSTABLE]
	guaranteed := classes[journaletv1.QosClass_QOS_CLASS_GUARANTEED]
	if len(shortAfter(short, slices.Concat(bestEffort, burstable, guaranteed))) > 0 {
		return nil, ErrNoRoom
	}
	guaranteed = nearest(guaranteed, shortAfter(short, slices.Concat(bestEffort, burstable)))
	burstable = nearest(burstable, shortAfter(short, slices.Concat(bestEffort, guaranteed)))
	bestEffort = nearest(bestEffort, shortAfter(short, slices.Concat(burstable, guaranteed)))
	return slices.Concat(bestEffort, burstable, guaranteed), nil
}

// shortAfter returns what is still short after pods have terminated.
func shortAfter(short []Shortage, ended []Candidate) []Shortage {
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

// nearest takes pods until nothing is short: each time the pod whose termination leaves the least short, of two equal
// ones the smaller, of two of one size the later. The pods must suffice.
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
		short = shortAfter(short, from[at:at+1])
		from[at] = from[len(from)-1]
		from = from[:len(from)-1]
	}
	return taken
}

// distance returns how much is still short after a pod has terminated: the sum over the resources of the squared
// fraction of the shortage that remains.
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

// candidates returns the pods that a pod may preempt, the pods of the lowest priority last, since nearest takes the
// last of equal pods. local is set for a pod of a local source.
func (a *Actor) candidates(priority int32, local bool) []Candidate {
	cluster := a.inCluster()
	var all []Candidate
	for _, uid := range slices.Sorted(maps.Keys(a.state.Pods)) {
		p := a.state.Pods[uid]
		lower := p.GetPriority() < priority
		if cluster {
			lower = a.lowerInCluster(uid, priority, local)
		}
		if p.GetTerminated() || p.GetPreempted() || !lower {
			continue
		}
		all = append(all, Candidate{UID: uid, Demand: p.GetDemand(), QOS: p.GetQos(), Priority: p.GetPriority()})
	}
	slices.SortStableFunc(all, func(x, y Candidate) int { return cmp.Compare(y.Priority, x.Priority) })
	return all
}

// admit admits a pod that belongs here, rejects it, or preempts others for it.
func (a *Actor) admit(q *journaletv1.AdmissionRequested, emit actors.Emit) {
	if a.awaitsNode(q.GetUid()) || a.awaitsPlugin(q, emit) {
		return
	}
	short := a.shortages(q.GetDemand(), a.usedAfterVictims())
	if !a.portsFree(q.GetDemand()) || a.outOfHugePages(q.GetDemand()) != nil {
		// No pod is preempted for a pod that could not run even then.
		emit(rejected(q, a.noRoom(q.GetDemand())))
		return
	}
	g, keeps := a.keep(q)
	if !keeps {
		if r := outOfDevices(a.chooser(q, nil).Finish()); r != nil {
			a.refuse(q, cmp.Or(a.noRoom(q.GetDemand()), r), emit)
			return
		}
	}
	var victims []Candidate
	if len(short) > 0 {
		var err error
		if victims, err = Victims(a.candidates(q.GetPriority(), !q.GetSharesName()), short); err != nil {
			emit(rejected(q, a.noRoom(q.GetDemand())))
			return
		}
	}
	var ended func(uid string) bool
	// Without victims of its own there is room once the pods that were preempted before have terminated.
	waits := len(victims) > 0 || len(a.shortages(q.GetDemand(), a.used())) > 0
	if waits {
		ended = a.endedAfter(victims)
	}
	var refusal *rejection
	if !keeps {
		g, refusal = a.allocate(q, ended)
	}
	switch {
	case g.request != nil:
		emit(a.preferenceRequested(q, g.request))
	case refusal != nil:
		// No pod is preempted for a pod that could not have the exclusive resources that it requests even then.
		a.refuse(q, refusal, emit)
	case waits:
		emit(a.preempting(q, g, keeps, victims))
	default:
		emit(a.admitted(q, g))
	}
}

// preempting returns the answer to a request that waits until others have ended; a rejection if no ids are left for its
// user namespace.
func (a *Actor) preempting(
	q *journaletv1.AdmissionRequested, g grant, keeps bool, victims []Candidate,
) *journaletv1.Event {
	ids, ok := a.userNamespace(q)
	if !ok {
		return rejected(q, noUserNamespace)
	}
	h := &journaletv1.AdmissionPendingPreemption{
		Uid: q.GetUid(), FullName: q.GetNamespace() + "/" + q.GetName(), Devices: g.devices, Exclusive: g.exclusive,
		Kept: keeps, UserNamespace: ids,
	}
	for _, v := range victims {
		h.Victims = append(h.Victims, v.UID)
	}
	return messages.NewEvent(h)
}

// admitPending decides on what waits for preempted pods, as far as there is room now: first the pending resizes, then
// the pending pods in the order of their requests. A pod that no further termination can help, since the node has
// shrunk, is rejected.
func (a *Actor) admitPending(emit actors.Emit) {
	before := a.allocatePending(emit)
	for _, q := range slices.Clone(a.state.PendingPreemption) {
		used := a.running().plus(before)
		short := a.shortages(q.GetDemand(), used)
		r := a.rejectShort(short, q.GetDemand(), used)
		var g grant
		if r == nil {
			g, r = a.allocatePreemptor(q)
		}
		// There may be enough, and a pod that ends still have what this one is to have, or something be kept for another.
		kept, _ := a.keptForOthers(q.GetUid())
		if r != nil && (a.state.GetPreempting() > 0 || kept != "") || a.closed(q.GetPriority()) || a.missingPlugin(q) != "" {
			before = before.plus(shareOf(q.GetDemand()))
			continue
		}
		if r != nil {
			emit(rejected(q, r))
		} else {
			emit(a.admitted(q, g))
		}
	}
}

// evolvePending reserves a pod's place, and marks its victims.
func (a *Actor) evolvePending(h *journaletv1.AdmissionPendingPreemption) {
	s := a.state
	a.preempt(h.GetVictims())
	q := a.waitingRequest(h.GetUid())
	if q == nil {
		return
	}
	found := a.found(q.GetUid())
	if s.GetConfig().GetKeepsForWaitingPods() {
		a.keepRest(q.GetUid(), a.rest(q.GetUid(), grant{}))
	} else {
		a.dropKubeletPod(q.GetUid())
	}
	s.PendingPreemption = append(s.PendingPreemption, q)
	s.Names[queueOf(q)] = q.GetUid()
	if len(h.GetDevices()) > 0 || len(h.GetExclusive()) > 0 || h.GetUserNamespace() != nil || found {
		if s.Reservations == nil {
			s.Reservations = map[string]*journaletv1.Reservation{}
		}
		s.Reservations[q.GetUid()] = &journaletv1.Reservation{
			Devices: h.GetDevices(), Exclusive: h.GetExclusive(), Kept: h.GetKept(),
			UserNamespace: h.GetUserNamespace(), Found: found,
		}
	}
	for _, port := range q.GetDemand().GetHostPorts() {
		a.takePort(port, q.GetUid())
	}
}

// preempt marks pods as preempted.
func (a *Actor) preempt(uids []string) {
	for _, uid := range uids {
		if p := a.state.Pods[uid]; p != nil && !p.GetTerminated() && !p.GetPreempted() {
			p.Preempted = true
			a.state.Preempting++
			a.victims[uid] = true
		}
	}
}

// pends reports whether other pods end for a pod.
func (a *Actor) pends(uid string) bool {
	return slices.ContainsFunc(a.state.GetPendingPreemption(), func(q *journaletv1.AdmissionRequested) bool {
		return q.GetUid() == uid
	})
}

// endPending frees the place that was reserved for a pod.
func (a *Actor) endPending(uid string) {
	s := a.state
	delete(s.Reservations, uid)
	for _, q := range s.PendingPreemption {
		if q.GetUid() != uid {
			continue
		}
		if name := queueOf(q); s.Names[name] == uid {
			delete(s.Names, name)
		}
		for _, port := range q.GetDemand().GetHostPorts() {
			a.freePort(port, uid)
		}
	}
	s.PendingPreemption = without(s.PendingPreemption, uid)
}
