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
		s.Config = k.AgentStarted.GetConfig()
	case *journaletv1.Event_AdmissionRequested:
		a.evolveAsked(k.AdmissionRequested)
	case *journaletv1.Event_AdmissionPendingPreemption:
		a.evolveHeld(k.AdmissionPendingPreemption)
	case *journaletv1.Event_AdmissionDecided:
		a.decided(k.AdmissionDecided)
	case *journaletv1.Event_ResizeRequested:
		a.evolveResizeAsked(k.ResizeRequested)
	case *journaletv1.Event_ResizeWithdrawn:
		delete(s.Resizes, k.ResizeWithdrawn.GetUid())
	case *journaletv1.Event_ResizeDecided:
		a.evolveResized(e, k.ResizeDecided)
	case *journaletv1.Event_ResizePendingPreemption:
		a.evolveResizeHeld(e, k.ResizePendingPreemption)
	case *journaletv1.Event_PodTerminated:
		if p := s.Pods[k.PodTerminated.GetUid()]; p != nil {
			a.free(k.PodTerminated.GetUid(), p)
		}
	case *journaletv1.Event_PodFinished:
		a.finished(k.PodFinished.GetUid())
	}
	a.evolveSources(e)
	return nil
}

// evolveAsked puts a pod into the queue for its name.
func (a *Actor) evolveAsked(q *journaletv1.AdmissionRequested) {
	s := a.state
	a.noOrphan(q.GetUid())
	name := q.GetNamespace() + "/" + q.GetName()
	if s.Waiting[name] == nil {
		s.Waiting[name] = new(journaletv1.WaitingPods)
	}
	s.Waiting[name].Requests = append(s.Waiting[name].Requests, q)
	s.WaitsFor[q.GetUid()] = name
}

// decided takes the pod out of the queue for its name, and gives it the name. A rejected pod holds
// its name too, until it has finished, as a terminal pod does.
func (a *Actor) decided(d *journaletv1.AdmissionDecided) {
	s := a.state
	q := a.asked(d.GetUid())
	if q == nil {
		return
	}
	name := q.GetNamespace() + "/" + q.GetName()
	a.dequeue(name, d.GetUid())
	a.unhold(d.GetUid())
	if s.Names[name] == "" {
		s.Names[name] = d.GetUid()
	}
	s.Pods[d.GetUid()] = &journaletv1.AdmittedPod{
		FullName: name, Demand: q.GetDemand(), Terminated: !d.GetAdmitted(), Priority: q.GetPriority(), Qos: q.GetQos(),
	}
	if !d.GetAdmitted() {
		return
	}
	s.Running++
	s.Used.MilliCpu += q.GetDemand().GetMilliCpu()
	s.Used.MemoryBytes += q.GetDemand().GetMemoryBytes()
	s.Used.EphemeralStorageBytes += q.GetDemand().GetEphemeralStorageBytes()
	for _, port := range q.GetDemand().GetHostPorts() {
		a.takePort(port, d.GetUid())
	}
}

// free gives back a pod's share of the node. Its name stays taken.
func (a *Actor) free(uid string, p *journaletv1.AdmittedPod) {
	if p.Terminated {
		return
	}
	s := a.state
	delete(s.Resizes, uid)
	p.Terminated = true
	if p.GetPreempted() {
		s.Preempting--
	}
	s.Running--
	s.Used.MilliCpu -= p.GetDemand().GetMilliCpu()
	s.Used.MemoryBytes -= p.GetDemand().GetMemoryBytes()
	s.Used.EphemeralStorageBytes -= p.GetDemand().GetEphemeralStorageBytes()
	for _, port := range p.GetDemand().GetHostPorts() {
		a.freePort(port, uid)
	}
}

func (a *Actor) finished(uid string) {
	s := a.state
	if q := a.asked(uid); q != nil {
		a.dequeue(q.GetNamespace()+"/"+q.GetName(), uid)
		a.unhold(uid)
	}
	if p := s.Pods[uid]; p != nil {
		a.free(uid, p)
		if s.Names[p.GetFullName()] == uid {
			delete(s.Names, p.GetFullName())
		}
		delete(s.Pods, uid)
	}
}

// asked is the question of a pod that has no answer yet, nil if there is none.
func (a *Actor) asked(uid string) *journaletv1.AdmissionRequested {
	for _, q := range a.state.Waiting[a.state.WaitsFor[uid]].GetRequests() {
		if q.GetUid() == uid {
			return q
		}
	}
	return nil
}

func (a *Actor) dequeue(name, uid string) {
	w := a.state.Waiting[name]
	w.Requests = slices.DeleteFunc(w.GetRequests(), func(q *journaletv1.AdmissionRequested) bool { return q.GetUid() == uid })
	delete(a.state.WaitsFor, uid)
	if len(w.Requests) == 0 {
		delete(a.state.Waiting, name)
	}
}
