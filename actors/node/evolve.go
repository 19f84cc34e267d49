package node

import (
	"slices"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Evolve folds one event.
func (a *Actor) Evolve(e actors.Event) error {
	s := a.state
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		before := s.Config.GetManagers()
		s.Config = k.AgentStarted.GetConfig()
		a.evolveFoundUserNamespaces(k.AgentStarted.GetFoundUserNamespaces())
		a.evolveManagers(before, s.Config.GetManagers())
		a.evolveKubeletPods(k.AgentStarted.GetKubeletState().GetPods())
		a.evolveFoundResources(k.AgentStarted.GetFoundResources())
	case *journaletv1.Event_AdmissionRequested:
		a.evolveRequested(k.AdmissionRequested)
		a.evolveExclusiveRequest(k.AdmissionRequested, e.Manifest)
	case *journaletv1.Event_AdmissionPendingPreemption:
		a.evolvePending(k.AdmissionPendingPreemption)
	case *journaletv1.Event_AdmissionDecided:
		a.evolveDecided(k.AdmissionDecided)
	case *journaletv1.Event_ResizeRequested:
		a.evolveResizeRequested(e, k.ResizeRequested)
	case *journaletv1.Event_ResizeWithdrawn:
		delete(s.Resizes, k.ResizeWithdrawn.GetUid())
	case *journaletv1.Event_ResizeDecided:
		a.evolveResizeDecided(e, k.ResizeDecided)
	case *journaletv1.Event_ResizePendingPreemption:
		a.evolveResizePending(e, k.ResizePendingPreemption)
	case *journaletv1.Event_PodTerminated:
		if p := s.Pods[k.PodTerminated.GetUid()]; p != nil {
			a.freeShare(k.PodTerminated.GetUid(), p)
		}
		a.dropRequest(k.PodTerminated.GetUid()) // it was deleted before it was admitted
		a.dropKubeletPod(k.PodTerminated.GetUid())
	case *journaletv1.Event_FoundCpusLeft:
		a.evolveFoundCPUsLeft(k.FoundCpusLeft.GetUid())
	case *journaletv1.Event_PodFinished:
		a.evolveFinished(k.PodFinished)
	case *journaletv1.Event_SharedCpusDecided:
		a.evolveShared(k.SharedCpusDecided)
	case *journaletv1.Event_NodeObserved:
		if k.NodeObserved.GetFailure() == "" {
			s.Node = k.NodeObserved
		}
	case *journaletv1.Event_CallRequested:
		s.PodCidr = k.CallRequested.GetUpdateRuntimeConfig().GetPodCidr()
	}
	a.evolveReads(e)
	fired := actors.FoldTimer(s.Timers, e)
	a.evolveSources(e)
	a.evolveDrain(e, fired)
	a.evolvePressure(e, fired)
	a.evolveDevices(e, fired)
	if fired == kubeletTimer {
		a.dropKubeletPods()
	}
	return nil
}

// evolveRequested appends a pod to the queue for its name.
func (a *Actor) evolveRequested(q *journaletv1.AdmissionRequested) {
	s := a.state
	a.dropOrphan(q.GetUid())
	name := queueOf(q)
	if s.Waiting[name] == nil {
		s.Waiting[name] = new(journaletv1.WaitingPods)
	}
	s.Waiting[name].Requests = append(s.Waiting[name].Requests, q)
	s.WaitsFor[q.GetUid()] = name
}

// evolveDecided takes a pod out of the queue for its name, and gives it the name. A rejected pod holds its name too
// until it has finished, as a terminated pod does.
func (a *Actor) evolveDecided(d *journaletv1.AdmissionDecided) {
	s := a.state
	q := a.waitingRequest(d.GetUid())
	if q == nil {
		return
	}
	name := q.GetNamespace() + "/" + q.GetName()
	a.dequeue(queueOf(q), d.GetUid())
	a.endPending(d.GetUid())
	a.evolveRest(d)
	if s.Names[name] == "" && !q.GetSharesName() {
		s.Names[name] = d.GetUid()
	}
	s.Pods[d.GetUid()] = &journaletv1.AdmittedPod{
		FullName: name, Demand: q.GetDemand(), Terminated: !d.GetAdmitted(), Priority: q.GetPriority(), Qos: q.GetQos(),
		UserNamespace: d.GetUserNamespace(), Devices: d.GetDevices(),
	}
	a.evolveExclusive(s.Pods[d.GetUid()], d)
	if d.GetUserNamespace() != nil {
		delete(s.FoundUserNamespaces, d.GetUid())
	}
	if !d.GetAdmitted() {
		if d.GetReason() == ReasonNodeShutdown {
			a.evolveEviction(d.GetUid())
		}
		return
	}
	s.Running++
	s.Used.MilliCpu += q.GetDemand().GetMilliCpu()
	s.Used.MemoryBytes += q.GetDemand().GetMemoryBytes()
	s.Used.EphemeralStorageBytes += q.GetDemand().GetEphemeralStorageBytes()
	s.Used.HugePages = plusHugePages(s.Used.HugePages, q.GetDemand().GetHugePages())
	for _, port := range q.GetDemand().GetHostPorts() {
		a.takePort(port, d.GetUid())
	}
}

// freeShare frees a pod's share of the node. Its name stays taken.
func (a *Actor) freeShare(uid string, p *journaletv1.AdmittedPod) {
	if p.Terminated {
		return
	}
	s := a.state
	delete(s.Resizes, uid)
	a.freeExclusive(uid, p)
	p.Terminated = true
	if p.GetPreempted() {
		s.Preempting--
		delete(a.victims, uid)
	}
	s.Running--
	s.Used.MilliCpu -= p.GetDemand().GetMilliCpu()
	s.Used.MemoryBytes -= p.GetDemand().GetMemoryBytes()
	s.Used.EphemeralStorageBytes -= p.GetDemand().GetEphemeralStorageBytes()
	s.Used.HugePages = minusHugePages(s.Used.HugePages, p.GetDemand().GetHugePages())
	for _, port := range p.GetDemand().GetHostPorts() {
		a.freePort(port, uid)
	}
}

func (a *Actor) evolveFinished(f *journaletv1.PodFinished) {
	s, uid := a.state, f.GetUid()
	if !f.GetUnseen() {
		delete(s.FoundUserNamespaces, uid)
		a.dropKubeletPod(uid)
	}
	a.dropRequest(uid)
	if p := s.Pods[uid]; p != nil {
		a.freeShare(uid, p)
		if s.Names[p.GetFullName()] == uid {
			delete(s.Names, p.GetFullName())
		}
		delete(s.Pods, uid)
	}
}

// queueOf returns the name of the queue where a pod waits for its admission: its full name. If the pod shares that name
// with others, it waits in a queue of its own, by its UID.
func queueOf(q *journaletv1.AdmissionRequested) string {
	if q.GetSharesName() {
		return q.GetUid()
	}
	return q.GetNamespace() + "/" + q.GetName()
}

// dropRequest drops a pod's admission request that is not decided yet.
func (a *Actor) dropRequest(uid string) {
	if q := a.waitingRequest(uid); q != nil {
		a.dequeue(queueOf(q), uid)
		a.endPending(uid)
	}
	delete(a.state.ExclusiveRequests, uid)
}

// waitingRequest returns a pod's admission request that is not decided yet; nil for none.
func (a *Actor) waitingRequest(uid string) *journaletv1.AdmissionRequested {
	for _, q := range a.state.Waiting[a.state.WaitsFor[uid]].GetRequests() {
		if q.GetUid() == uid {
			return q
		}
	}
	return nil
}

func (a *Actor) dequeue(name, uid string) {
	w := a.state.Waiting[name]
	w.Requests = without(w.GetRequests(), uid)
	delete(a.state.WaitsFor, uid)
	delete(a.state.DeviceWaits, uid)
	a.dropRead(uid)
	if len(w.Requests) == 0 {
		delete(a.state.Waiting, name)
	}
}

// without removes a pod's request from a list, in place.
func without(list []*journaletv1.AdmissionRequested, uid string) []*journaletv1.AdmissionRequested {
	return slices.DeleteFunc(list, func(q *journaletv1.AdmissionRequested) bool { return q.GetUid() == uid })
}
