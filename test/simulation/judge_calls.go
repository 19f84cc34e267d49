package simulation

import (
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// What must hold of calls together: how many there are at once, and of which kind.

// bound is what bounds how many calls are made at once.
type bound int

const (
	unbounded bound = iota
	startConcurrency
	stopConcurrency
	pullConcurrency
)

func boundOf(req *journaletv1.CallRequested) bound {
	switch req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox, *journaletv1.CallRequested_StartContainer, *journaletv1.CallRequested_UpdateContainer,
		*journaletv1.CallRequested_SetUpVolumes:
		return startConcurrency
	case *journaletv1.CallRequested_StopSandbox, *journaletv1.CallRequested_RemoveSandbox, *journaletv1.CallRequested_RemoveContainer,
		*journaletv1.CallRequested_CleanPod:
		return stopConcurrency
	case *journaletv1.CallRequested_PullImage:
		return pullConcurrency
	}
	return unbounded // stops that wait for their grace, and hooks: their bounds are too high to be reached here
}

// dispatched: with each call that begins there are no more of its kind than the configuration allows that the agent had when it decided so, on
// record cause. Those that a run before began go on, though it may have allowed more.
func (j *judge) dispatched(cause uint64, in *intent, d *journaletv1.CallDispatched) {
	of := boundOf(in.req)
	if !in.dispatched {
		j.busy[of]++
	}
	in.dispatched = true
	c := j.configAt(cause)
	most := map[bound]uint32{
		startConcurrency: c.GetStartConcurrency(), stopConcurrency: c.GetStopConcurrency(), pullConcurrency: c.GetPullConcurrency(),
	}
	if n := j.busy[of]; of != unbounded && !d.GetInDoubt() && n > int(most[of]) && !j.journalLost {
		j.broken(withinLimits, in.req.GetPodUid(), "%d calls at once, and %d may be: %v", n, most[of], in.req)
	}
}

// configured is what a run of the agent began with, and the record of that.
type configured struct {
	seq uint64
	*journaletv1.AgentConfig
}

// configAt is the configuration as of a record.
func (j *judge) configAt(seq uint64) *journaletv1.AgentConfig {
	for _, c := range slices.Backward(j.configs) {
		if c.seq <= seq {
			return c.AgentConfig
		}
	}
	return nil
}

// onePull: pods that want the same image wait for the same pull.
func (j *judge) onePull(requester *podHistory, in *intent) {
	image := in.req.GetPullImage().GetImage()
	if image != "" && slices.ContainsFunc(requester.openCalls, func(other *intent) bool { return other.req.GetPullImage().GetImage() == image }) {
		j.broken(onePull, "", "%s is being pulled", image)
	}
}

// admittedBefore: no sandbox is asked for before the node has let the pod in, in this life.
func (j *judge) admittedBefore(uid string, h *podHistory, in *intent) {
	if in.req.GetRunSandbox() != nil && h.admittedIncarnation != h.incarnation && !j.journalLost {
		j.broken(admittedFirst, uid, "it asked with record %d, and was let in for %d", h.incarnation, h.admittedIncarnation)
	}
}
