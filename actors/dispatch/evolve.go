package dispatch

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Evolve folds one event.
func (a *Actor) Evolve(e actors.Event) error {
	s := a.state
	if e.Body.GetTimerSet() != nil && s.Timers == nil {
		s.Timers = new(journaletv1.Timers)
	}
	fired := ""
	if s.Timers != nil {
		fired = actors.FoldTimer(s.Timers, e)
	}
	a.evolveStartingPods(e, fired)
	a.evolveConfig(e, fired)
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		a.evolveStarted(k.AgentStarted)
	case *journaletv1.Event_RuntimeHealthChanged:
		s.Health = k.RuntimeHealthChanged
	case *journaletv1.Event_CallRequested:
		a.enqueue(e, k.CallRequested)
	case *journaletv1.Event_CallDispatched:
		return a.evolveDispatched(e, k.CallDispatched)
	case *journaletv1.Event_CallWithdrawn:
		a.evolveWithdrawn(k.CallWithdrawn.GetIntentId())
	case *journaletv1.Event_CallDropped:
		if c := s.Calls[k.CallDropped.GetIntentId()]; c != nil {
			a.unqueue(c)
			delete(s.Calls, c.GetIntentId())
		}
	case *journaletv1.Event_CallFinished:
		if c := s.Calls[k.CallFinished.GetIntentId()]; c != nil {
			a.freeSlot(c)
			delete(s.Calls, c.GetIntentId())
		}
	}
	return nil
}

func (a *Actor) evolveStarted(started *journaletv1.AgentStarted) {
	c := started.GetConfig()
	a.state.Limits = &journaletv1.LaneLimits{
		Start: max(1, c.GetStartConcurrency()), Stop: max(1, c.GetStopConcurrency()),
		Pull: max(1, c.GetPullConcurrency()), Grace: maxGraceCalls,
		Serial: c.GetStartConcurrency() == 1 && c.GetStopConcurrency() == 1,
	}
	for _, call := range a.underWay() {
		call.InDoubt = true
	}
}

// evolveWithdrawn marks a call under way as cut short, so that the next run cuts it short too.
func (a *Actor) evolveWithdrawn(id string) {
	c := a.state.Calls[id]
	mayBeCut := isHook(c.GetRequest()) && c.GetRequest().GetCleanPod() == nil || c.GetRequest().GetStopContainer() != nil
	if mayBeCut && c.GetStage() == journaletv1.CallStage_CALL_STAGE_DISPATCHED {
		c.Withdrawn = true
	}
}

func (a *Actor) enqueue(e actors.Event, req *journaletv1.CallRequested) {
	s := a.state
	s.Arrivals++
	c := &journaletv1.Call{
		IntentId: e.ID, Requester: e.Author.String(), Request: req, Lane: laneOf(req),
		Stage: journaletv1.CallStage_CALL_STAGE_QUEUED, Arrival: s.Arrivals,
	}
	s.Calls[e.ID] = c
	q := s.Queues[int32(c.Lane)]
	if q == nil {
		q = new(journaletv1.CallQueue)
		s.Queues[int32(c.Lane)] = q
	}
	q.IntentIds = append(q.IntentIds, e.ID)
}

func (a *Actor) unqueue(c *journaletv1.Call) {
	q := a.state.Queues[int32(c.GetLane())]
	if i := slices.Index(q.GetIntentIds(), c.GetIntentId()); i >= 0 {
		q.IntentIds = slices.Delete(q.IntentIds, i, i+1)
	}
}

// evolveDispatched takes a slot for a call. A call that was under way before a restart has its slot already.
func (a *Actor) evolveDispatched(e actors.Event, d *journaletv1.CallDispatched) error {
	c := a.state.Calls[d.GetIntentId()]
	if c == nil {
		return actors.Illegal(e, journaletv1.CallStage_CALL_STAGE_UNSPECIFIED)
	}
	if c.GetStage() == journaletv1.CallStage_CALL_STAGE_DISPATCHED {
		c.InDoubt = false
		return nil
	}
	a.unqueue(c)
	c.Stage = journaletv1.CallStage_CALL_STAGE_DISPATCHED
	c.DispatchedAt = timestamppb.New(e.Time)
	a.state.Busy[slotOf(c.GetLane())]++
	uid := c.GetRequest().GetPodUid()
	if c.GetRequest().GetPullImage() != nil {
		return nil
	}
	if isHook(c.GetRequest()) {
		a.state.Hooks[uid]++
		return nil
	}
	p := a.state.Pods[uid]
	if p == nil {
		p = &journaletv1.PodCalls{Containers: map[string]string{}}
		a.state.Pods[uid] = p
	}
	if p.Containers == nil {
		p.Containers = map[string]string{}
	}
	p.Busy++
	if name, whole := scopeOf(c.GetRequest()); whole {
		p.SandboxCall = c.GetIntentId()
	} else {
		p.Containers[name] = c.GetIntentId()
	}
	return nil
}

// freeSlot frees a finished call's slot. The outcome of a call that was never dispatched (an inspection found it
// done) only takes the call off its queue.
func (a *Actor) freeSlot(c *journaletv1.Call) {
	if c.GetStage() != journaletv1.CallStage_CALL_STAGE_DISPATCHED {
		a.unqueue(c)
		return
	}
	a.state.Busy[slotOf(c.GetLane())]--
	uid := c.GetRequest().GetPodUid()
	if c.GetRequest().GetPullImage() != nil {
		return
	}
	if isHook(c.GetRequest()) {
		if a.state.Hooks[uid]--; a.state.Hooks[uid] == 0 {
			delete(a.state.Hooks, uid)
		}
		return
	}
	p := a.state.Pods[uid]
	if p == nil {
		return
	}
	p.Busy--
	if name, whole := scopeOf(c.GetRequest()); whole {
		p.SandboxCall = ""
	} else {
		delete(p.Containers, name)
	}
	if p.Busy == 0 {
		delete(a.state.Pods, uid)
	}
}
