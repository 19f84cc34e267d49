package dispatch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// lanes are all lanes in the order of service: stops come before starts, and the containers of a started pod before the
// next pod's sandbox.
var lanes = []journaletv1.Lane{
	journaletv1.Lane_LANE_GRACE, journaletv1.Lane_LANE_HOOK, journaletv1.Lane_LANE_STOP, journaletv1.Lane_LANE_REMOVE,
	journaletv1.Lane_LANE_PULL, journaletv1.Lane_LANE_START, journaletv1.Lane_LANE_SANDBOX,
}

func laneOf(req *journaletv1.CallRequested) journaletv1.Lane {
	if callsCSI(req) {
		return journaletv1.Lane_LANE_HOOK
	}
	switch req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return journaletv1.Lane_LANE_SANDBOX
	case *journaletv1.CallRequested_StartContainer, *journaletv1.CallRequested_UpdateContainer,
		*journaletv1.CallRequested_SetUpVolumes:
		return journaletv1.Lane_LANE_START
	case *journaletv1.CallRequested_StopContainer:
		return journaletv1.Lane_LANE_GRACE
	case *journaletv1.CallRequested_PullImage:
		return journaletv1.Lane_LANE_PULL
	case *journaletv1.CallRequested_StopSandbox:
		return journaletv1.Lane_LANE_STOP
	case *journaletv1.CallRequested_RunHook, *journaletv1.CallRequested_AllocateDevices,
		*journaletv1.CallRequested_PreStartContainer, *journaletv1.CallRequested_ReadClaims,
		*journaletv1.CallRequested_PrepareClaims, *journaletv1.CallRequested_UnprepareClaims,
		*journaletv1.CallRequested_UpdateRuntimeConfig:
		return journaletv1.Lane_LANE_HOOK
	}
	return journaletv1.Lane_LANE_REMOVE
}

// slotOf returns the lane whose bound a call counts against.
func slotOf(l journaletv1.Lane) int32 {
	switch l {
	case journaletv1.Lane_LANE_SANDBOX:
		return int32(journaletv1.Lane_LANE_START)
	case journaletv1.Lane_LANE_REMOVE:
		return int32(journaletv1.Lane_LANE_STOP)
	}
	return int32(l)
}

// scopeOf returns what a call excludes: all other calls of its pod, or those for one container, by name. SetUpVolumes
// has the empty name, which no container can have: it runs beside RunSandbox. The removal of a dead instance excludes
// only this instance, by its id: a removal that hangs must not hold up the next start. A move to other CPUs excludes
// other moves of its container: it does not wait for the end of a grace period. The removal of an image is of no
// pod and excludes other removals of images: they share their lane with the teardown of pods, and take one slot of it.
func scopeOf(req *journaletv1.CallRequested) (name string, whole bool) {
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_StartContainer:
		return w.StartContainer.GetContainer(), false
	case *journaletv1.CallRequested_StopContainer:
		return w.StopContainer.GetContainer(), false
	case *journaletv1.CallRequested_UpdateContainer:
		if w.UpdateContainer.GetBesideStop() {
			return w.UpdateContainer.GetContainer() + " moves", false
		}
		return w.UpdateContainer.GetContainer(), false
	case *journaletv1.CallRequested_RemoveContainer:
		return w.RemoveContainer.GetContainerId(), false
	case *journaletv1.CallRequested_SetUpVolumes:
		return "", false
	}
	return "", true
}

// isHook reports whether a call runs a hook, calls a plugin, or configures the runtime. Such a call excludes no other
// and waits for no other, even if all others are serial: a hook runs the container's own program, which may wait for
// the effect of another call, a plugin may hang, and no stop may wait for either. All sandboxes may wait for the
// network that the runtime has once it is configured.
func isHook(req *journaletv1.CallRequested) bool {
	return req.GetRunHook() != nil || callsPlugin(req) || isConfig(req)
}

// callsPlugin reports whether a call waits for a plugin, of devices, for claims or of CSI, or for an NFS server.
func callsPlugin(req *journaletv1.CallRequested) bool {
	return messages.IsAboutDevices(req) || messages.IsAboutClaims(req) || callsCSI(req)
}

// callsCSI reports whether a call sets up or tears down volumes of CSI drivers, claims and NFS servers.
func callsCSI(req *journaletv1.CallRequested) bool {
	return req.GetSetUpVolumes().GetCsi() || req.GetCleanPod().GetCsi()
}

// full reports whether a lane has no free slot.
func (a *Actor) full(l journaletv1.Lane) bool {
	limits := a.state.GetLimits()
	if l == journaletv1.Lane_LANE_HOOK {
		return false // depends on the pod: mayRunHook
	}
	if limits.GetSerial() {
		for _, lane := range lanes {
			if lane != journaletv1.Lane_LANE_HOOK && a.state.Busy[int32(lane)] > 0 {
				return true
			}
		}
	}
	busy := a.state.Busy[slotOf(l)]
	switch l {
	case journaletv1.Lane_LANE_GRACE:
		return busy >= max(1, limits.GetGrace())
	case journaletv1.Lane_LANE_PULL:
		return busy >= max(1, limits.GetPull())
	case journaletv1.Lane_LANE_STOP, journaletv1.Lane_LANE_REMOVE:
		return busy >= max(1, limits.GetStop())
	}
	return busy >= max(1, limits.GetStart())
}

// mayRunHook reports whether a slot is free for one more hook of a pod: the pod's own slot, or a slot that all pods
// share.
func (a *Actor) mayRunHook(uid string) bool {
	return a.state.Hooks[uid] < ownHookCalls || a.state.Busy[int32(journaletv1.Lane_LANE_HOOK)] < maxHookCalls
}

// free reports whether no call under way excludes this one.
func (a *Actor) free(c *journaletv1.Call) bool {
	run := c.GetRequest().GetRunSandbox()
	if run != nil && !run.GetHostNetwork() && !a.state.GetHealth().GetNetworkReady() {
		return false
	}
	if isConfig(c.GetRequest()) {
		return !a.configUnderWay()
	}
	if isHook(c.GetRequest()) {
		return a.mayRunHook(c.GetRequest().GetPodUid())
	}
	if c.GetRequest().GetPullImage() != nil {
		return true
	}
	p := a.state.Pods[c.GetRequest().GetPodUid()]
	if p == nil {
		return true
	}
	name, whole := scopeOf(c.GetRequest())
	if whole {
		// Volumes may be set up while the sandbox is created.
		others := p.GetBusy()
		if c.GetRequest().GetRunSandbox() != nil && p.GetContainers()[""] != "" {
			others--
		}
		return others == 0
	}
	if name == "" {
		return p.GetContainers()[""] == ""
	}
	return p.GetSandboxCall() == "" && p.GetContainers()[name] == ""
}

// next returns the call of a lane to dispatch next; nil for none. A restart gives its slot to a sandbox that has waited
// longer: containers that end again and again would otherwise keep every further pod from starting.
func (a *Actor) next(l journaletv1.Lane) *journaletv1.Call {
	if a.full(l) {
		return nil
	}
	c := a.first(l)
	if c.GetRequest().GetStartContainer().GetAttempt() > 0 {
		if s := a.first(journaletv1.Lane_LANE_SANDBOX); s != nil && s.GetArrival() < c.GetArrival() {
			return s
		}
	}
	return c
}

// first returns the first call in the queue of a lane that nothing excludes now; nil for none.
func (a *Actor) first(l journaletv1.Lane) *journaletv1.Call {
	for _, id := range a.state.Queues[int32(l)].GetIntentIds() {
		if c := a.state.Calls[id]; c != nil && a.free(c) && a.mayStartPod(c) {
			return c
		}
	}
	return nil
}

// underWay returns the dispatched calls in order of arrival.
func (a *Actor) underWay() []*journaletv1.Call {
	var calls []*journaletv1.Call
	for _, id := range slices.Sorted(maps.Keys(a.state.Calls)) {
		if c := a.state.Calls[id]; c.GetStage() == journaletv1.CallStage_CALL_STAGE_DISPATCHED {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(x, y *journaletv1.Call) int { return cmp.Compare(x.GetArrival(), y.GetArrival()) })
	return calls
}
