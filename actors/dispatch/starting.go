package dispatch

import (
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A starting pod with init containers requests one short call after the other, and between two of them its slot is
// free. If the next pod's sandbox took the slot each time, all pods of a burst would be ready only at its end. So no
// more pods are starting at once than there are slots. A starting pod that requests no call for a while, because an
// init container or a pull takes its time, no longer counts (ADR 002).

// startingPodTimer is set while a sandbox waits for an idle starting pod.
const startingPodTimer = "starting pods"

// maxStartingIdle is how long a starting pod may request no call, and at most twice that: a pod counts as idle only
// if it is idle when the timer is set. It is more than the runtime takes to report the exit of a container that exits
// at once (0.1 s on two busy cores), and short beside the start of a pod.
const maxStartingIdle = 250 * time.Millisecond

// evolveStartingPods folds which pods are starting, and which of them are idle.
func (a *Actor) evolveStartingPods(e actors.Event, fired string) {
	s := a.state
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_TimerFired:
		if fired != startingPodTimer {
			return
		}
		for _, uid := range a.startingPods() {
			if s.StartingPods[uid].GetIdle() {
				s.IgnoreStartingPods = true
				delete(s.StartingPods, uid)
			}
		}
	case *journaletv1.Event_TimerSet:
		if k.TimerSet.GetName() != startingPodTimer {
			return
		}
		for _, uid := range a.startingPods() {
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
		if !stillStarting(req, k.CallFinished.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED) {
			delete(s.StartingPods, req.GetPodUid())
		}
	}
}

// stillStarting reports whether a pod is still starting after a call for it has ended.
func stillStarting(req *journaletv1.CallRequested, ok bool) bool {
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return ok
	case *journaletv1.CallRequested_StartContainer:
		return ok && (w.StartContainer.GetInit() || w.StartContainer.GetPart() == journaletv1.StartPart_START_PART_CREATE)
	case *journaletv1.CallRequested_SetUpVolumes, *journaletv1.CallRequested_RemoveContainer,
		*journaletv1.CallRequested_RunHook, *journaletv1.CallRequested_AllocateDevices,
		*journaletv1.CallRequested_PreStartContainer, *journaletv1.CallRequested_ReadClaims,
		*journaletv1.CallRequested_PrepareClaims:
		return true
	}
	return false
}

func (a *Actor) queued(l journaletv1.Lane) []string { return a.state.Queues[int32(l)].GetIntentIds() }

// idle reports whether no call for a pod is under way or queued. Calls of plugins, which may hang, do not count.
func (a *Actor) idle(uid string) bool {
	for _, id := range slices.Sorted(maps.Keys(a.state.Calls)) {
		if req := a.state.Calls[id].GetRequest(); req.GetPodUid() == uid && !callsPlugin(req) {
			return false
		}
	}
	return true
}

func (a *Actor) startingPods() []string { return slices.Sorted(maps.Keys(a.state.StartingPods)) }

// mayStartPod reports whether a call may start another pod beside the starting pods. Only RunSandbox starts a pod.
func (a *Actor) mayStartPod(c *journaletv1.Call) bool {
	starting := a.state.StartingPods[c.GetRequest().GetPodUid()] != nil
	return c.GetRequest().GetRunSandbox() == nil || a.state.GetIgnoreStartingPods() || starting ||
		len(a.state.StartingPods) < int(max(1, a.state.GetLimits().GetStart()))
}

// waitForIdlePods sets the timer if a sandbox could be created now but for idle starting pods.
func (a *Actor) waitForIdlePods(emit actors.Emit) {
	if a.full(journaletv1.Lane_LANE_SANDBOX) || !a.blockedByStartingPods() {
		return
	}
	set := actors.SetTimer(a.state.GetTimers(), startingPodTimer, maxStartingIdle)
	if set == nil || !slices.ContainsFunc(a.startingPods(), a.idle) {
		return
	}
	emit(set)
}

// blockedByStartingPods reports whether a queued sandbox waits only for starting pods.
func (a *Actor) blockedByStartingPods() bool {
	for _, id := range a.queued(journaletv1.Lane_LANE_SANDBOX) {
		if c := a.state.Calls[id]; c != nil && a.free(c) {
			return !a.mayStartPod(c)
		}
	}
	return false
}
