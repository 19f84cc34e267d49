package dispatch

import (
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A pod with init containers makes one short call after the other, and between two of them its slot is free. If the next pod's
// sandbox took it each time, the pods of a burst would all be finished at its end. So no more pods are being started at once
// than there are slots, and one that asks for nothing for a while, because an init container or a pull takes its time, holds
// up nobody (ADR 002).

// openingTimer is set while a sandbox waits for a pod that asks for nothing.
const openingTimer = "opening"

// openingPatience is how long it may ask for nothing, and at most twice that, for a pod that has just asked counts from the next
// timer on: more than the runtime takes to tell the end of a container that ends at once (0.1 s on two busy cores), and
// little beside the start of a pod.
const openingPatience = 250 * time.Millisecond

// evolveOpening follows the pods that are being started.
func (a *Actor) evolveOpening(e actors.Event) {
	s := a.state
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_TimerFired:
		if s.Timers == nil || actors.FoldTimer(s.Timers, e) != openingTimer {
			return
		}
		for _, uid := range a.openings() {
			if s.StartingPods[uid].GetIdle() {
				s.IgnoreStartingPods = true
				delete(s.StartingPods, uid)
			}
		}
	case *journaletv1.Event_TimerSet:
		if s.Timers == nil {
			s.Timers = new(journaletv1.Timers)
		}
		actors.FoldTimer(s.Timers, e)
		for _, uid := range a.openings() {
			s.StartingPods[uid].Idle = a.idle(uid)
		}
	case *journaletv1.Event_CallRequested:
		if o := s.StartingPods[k.CallRequested.GetPodUid()]; o != nil {
			o.Idle = false
		}
		if k.CallRequested.GetRunSandbox() != nil && len(a.queued(journaletv1.Lane_LANE_SANDBOX)) == 0 {
			s.IgnoreStartingPods = false
		}
	case *journaletv1.Event_CallDispatched:
		if req := s.Calls[k.CallDispatched.GetIntentId()].GetRequest(); req.GetRunSandbox() != nil {
			s.StartingPods[req.GetPodUid()] = new(journaletv1.StartingPod)
		}
	case *journaletv1.Event_CallFinished:
		req := s.Calls[k.CallFinished.GetIntentId()].GetRequest()
		if !startsOn(req, k.CallFinished.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED) {
			delete(s.StartingPods, req.GetPodUid())
		}
	}
}

// startsOn tells whether a pod is still being started after a call for it.
func startsOn(req *journaletv1.CallRequested, ok bool) bool {
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return ok
	case *journaletv1.CallRequested_StartContainer:
		return ok && (w.StartContainer.GetInit() || w.StartContainer.GetPart() == journaletv1.StartPart_START_PART_CREATE)
	case *journaletv1.CallRequested_SetUpVolumes, *journaletv1.CallRequested_RemoveContainer, *journaletv1.CallRequested_RunHook:
		return true
	}
	return false
}

func (a *Actor) queued(l journaletv1.Lane) []string { return a.state.Queues[int32(l)].GetIntentIds() }

// idle tells whether no call for a pod is under way or waits for its turn.
func (a *Actor) idle(uid string) bool {
	for _, id := range slices.Sorted(maps.Keys(a.state.Calls)) {
		if a.state.Calls[id].GetRequest().GetPodUid() == uid {
			return false
		}
	}
	return true
}

func (a *Actor) openings() []string { return slices.Sorted(maps.Keys(a.state.StartingPods)) }

// mayOpen tells whether another pod may be started beside those that are. Other calls than that for a sandbox open none.
func (a *Actor) mayOpen(c *journaletv1.Call) bool {
	if c.GetRequest().GetRunSandbox() == nil || a.state.GetIgnoreStartingPods() || a.state.StartingPods[c.GetRequest().GetPodUid()] != nil {
		return true
	}
	return len(a.state.StartingPods) < int(max(1, a.state.GetLimits().GetStart()))
}

// waitForOpenings sets the timer if a sandbox could be made now but for pods that ask for nothing.
func (a *Actor) waitForOpenings(emit actors.Emit) error {
	if a.full(journaletv1.Lane_LANE_SANDBOX) || !a.held() {
		return nil
	}
	set := actors.SetTimer(a.state.GetTimers(), openingTimer, openingPatience)
	if set == nil || !slices.ContainsFunc(a.openings(), a.idle) {
		return nil
	}
	return emit(set)
}

// held tells whether a sandbox waits for nothing but a place among the pods that are being started.
func (a *Actor) held() bool {
	for _, id := range a.queued(journaletv1.Lane_LANE_SANDBOX) {
		if c := a.state.Calls[id]; c != nil && a.free(c) {
			return !a.mayOpen(c)
		}
	}
	return false
}
