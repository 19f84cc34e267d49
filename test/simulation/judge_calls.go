package simulation

import (
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of calls: how many calls of each kind run at once.

// bound is the limit that applies to a call.
type bound int

const (
	startConcurrency bound = iota
	stopConcurrency
	pullConcurrency
	graceConcurrency
	hookConcurrency
)

// apart reports whether a call waits for NFS servers, beside all others.
func apart(req *journaletv1.CallRequested) bool {
	return req.GetSetUpVolumes().GetCsi() || req.GetCleanPod().GetCsi()
}

// isHook reports whether a call has a slot of hooks and excludes no other call. Of the calls that wait for NFS servers,
// the decider has the set-up end before the tear-down begins.
func isHook(req *journaletv1.CallRequested) bool {
	return boundOf(req) == hookConcurrency && !apart(req)
}

func boundOf(req *journaletv1.CallRequested) bound {
	if apart(req) {
		return hookConcurrency
	}
	switch req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox, *journaletv1.CallRequested_StartContainer,
		*journaletv1.CallRequested_UpdateContainer,
		*journaletv1.CallRequested_SetUpVolumes:
		return startConcurrency
	case *journaletv1.CallRequested_StopSandbox, *journaletv1.CallRequested_RemoveSandbox,
		*journaletv1.CallRequested_RemoveContainer,
		*journaletv1.CallRequested_CleanPod, *journaletv1.CallRequested_RemoveImage:
		return stopConcurrency
	case *journaletv1.CallRequested_PullImage:
		return pullConcurrency
	case *journaletv1.CallRequested_RunHook, *journaletv1.CallRequested_AllocateDevices,
		*journaletv1.CallRequested_PreStartContainer, *journaletv1.CallRequested_ReadClaims,
		*journaletv1.CallRequested_PrepareClaims, *journaletv1.CallRequested_UnprepareClaims:
		return hookConcurrency
	}
	return graceConcurrency
}

// maxGrace bounds the stops of containers under way at once; most of such a call is waiting.
const maxGrace = 1024

// dispatched: when a call begins, no more of its kind run than the configuration allowed when the agent decided so,
// on record cause. Calls of an earlier run continue even if there are more of them than that.
// One that was withdrawn before that record does not begin, unless it is in doubt.
func (j *judge) dispatched(cause uint64, d *journaletv1.CallDispatched) {
	in := j.intents[d.GetIntentId()]
	if in == nil {
		return
	}
	if in.withdrawn > 0 && cause >= in.withdrawn && !d.GetInDoubt() {
		j.broken(withdrawnCalls, in.req.GetPodUid(), "withdrawn by record %d, and dispatched for record %d: %v",
			in.withdrawn, cause, in.req)
	}
	limit := boundOf(in.req)
	if !in.dispatched {
		j.busy[limit]++
	}
	in.dispatched, in.dispatchedAt = true, j.sim.clock.uptime
	j.bookDispatch(in)
	if !d.GetInDoubt() && limit != hookConcurrency {
		j.withinLimits(j.configAt(cause), limit, in.req)
	}
}

// withinLimits: no more calls run than configured. With bounds of one for starts and for stops, all calls are serial
// but hooks. (Hooks have a bound that no plan reaches.)
func (j *judge) withinLimits(c *journaletv1.AgentConfig, limit bound, req *journaletv1.CallRequested) {
	most := map[bound]uint32{
		startConcurrency: c.GetStartConcurrency(), stopConcurrency: c.GetStopConcurrency(),
		pullConcurrency: c.GetPullConcurrency(), graceConcurrency: maxGrace,
	}
	if n := j.busy[limit]; n > int(most[limit]) {
		j.broken(withinLimits, req.GetPodUid(), "%d calls at once, and the limit is %d: %v", n, most[limit], req)
	}
	all := j.busy[startConcurrency] + j.busy[stopConcurrency] + j.busy[pullConcurrency] + j.busy[graceConcurrency]
	if c.GetStartConcurrency() == 1 && c.GetStopConcurrency() == 1 && all > 1 {
		j.broken(withinLimits, req.GetPodUid(), "%d calls at once, and they are serial: %v", all, req)
	}
}

// configured is the configuration that a run of the agent began with, and its record.
type configured struct {
	seq uint64
	*journaletv1.AgentConfig
}

// configAt returns the configuration as of a record.
func (j *judge) configAt(seq uint64) *journaletv1.AgentConfig {
	for _, c := range slices.Backward(j.configs) {
		if c.seq <= seq {
			return c.AgentConfig
		}
	}
	return nil
}

// admittedBefore: an incarnation requests its sandbox after its own admission.
func (j *judge) admittedBefore(uid string, h *podHistory, in *intent) {
	if in.req.GetRunSandbox() != nil && h.admittedIncarnation != h.incarnation {
		j.broken(admittedFirst, uid, "it is incarnation %d, and the last admitted one is %d", h.incarnation,
			h.admittedIncarnation)
	}
}

func (j *judge) outcome(id string) {
	switch in := j.intents[id]; {
	case in == nil:
		j.broken(oneOutcome, "", "an outcome of %s, which no record requests", id)
	case in.finished:
		j.broken(oneOutcome, in.req.GetPodUid(), "a second outcome of %s: %v", id, in.req)
	default:
		if in.finished = true; in.dispatched {
			j.busy[boundOf(in.req)]--
		}
		d, err := messages.ParseDecisionID(id)
		if err != nil {
			j.broken(oneOutcome, in.req.GetPodUid(), "%v", err)
			return
		}
		h := j.history(d.Author.ID)
		h.openCalls = slices.DeleteFunc(h.openCalls, func(x *intent) bool { return x == in })
	}
}

// excludes reports whether a call must have a container to itself, or, for a sandbox, the whole pod but the set-up of
// its volumes.
func excludes(a, b *journaletv1.CallRequested) bool {
	name := func(r *journaletv1.CallRequested) string {
		return r.GetStartContainer().GetContainer() + r.GetStopContainer().GetContainer()
	}
	switch {
	case a.GetPodUid() == "" || isHook(a) || isHook(b) || b.GetCleanPod().GetCsi():
		return false // the last one is judged the other way round
	case a.GetCleanPod().GetCsi(): // it ends at once if a container runs, and what has ended has no volume any more
		return b.GetSetUpVolumes() != nil || b.GetStartContainer() != nil || b.GetRunSandbox() != nil
	case a.GetRunSandbox() != nil || a.GetStopSandbox() != nil || a.GetRemoveSandbox() != nil:
		return b.GetSetUpVolumes() == nil
	case a.GetCleanPod() != nil:
		return true
	}
	return name(a) != "" && name(a) == name(b)
}
