package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of hooks: they run when they should, once a run of the agent.

// hookRun is what the judge knows of one hook of an instance.
type hookRun struct {
	// inRun is the run of the agent that began it last, 0 for none; ended is set once it has ended in that run.
	inRun uint64
	ended bool
	// done is set if its outcome is recorded.
	done bool
}

// hookBegins judges that a run of the agent begins a hook.
func (j *judge) hookBegins(epoch uint64, k *journaletv1.RunHook) {
	x := j.book.byID[k.GetContainerId()]
	if x == nil || !x.alive() {
		return // it reaches no process
	}
	h := x.hook(k.GetKind())
	if (h.inRun == epoch || h.done) && !j.unrecorded(x) {
		j.broken(hooksOnce, x.uid, "a %s hook of %s begins again", k.GetKind(), x.id)
	}
	h.inRun, h.ended = epoch, false
	if k.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP && !j.unrecorded(x) {
		j.caused(x, "a preStop hook")
	}
}

// hookEnds books that a hook has ended.
func (j *judge) hookEnds(k *journaletv1.RunHook, out *journaletv1.CallFinished) {
	x := j.book.byID[k.GetContainerId()]
	if x == nil {
		return
	}
	x.hook(k.GetKind()).ended = true
	if k.GetKind() == journaletv1.HookKind_HOOK_KIND_POST_START && out.GetError() != 0 {
		x.postStartFailed = true
	}
}

// hook returns what is known of a hook.
func (x *instance) hook(kind journaletv1.HookKind) *hookRun {
	if kind == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
		return &x.preStop
	}
	return &x.postStart
}

// bookHook books the outcome of a hook. One that was withdrawn has none.
func (j *judge) bookHook(k *journaletv1.RunHook, f *journaletv1.CallFinished) {
	x := j.book.byID[k.GetContainerId()]
	if x == nil || f.GetError() == journaletv1.CallError_CALL_ERROR_WITHDRAWN ||
		f.GetError() == journaletv1.CallError_CALL_ERROR_NOT_DONE {
		return
	}
	x.hook(k.GetKind()).done = true
}

// hookBeforeStop: a running instance with a preStop hook is stopped after the hook has ended, or after its grace
// period. Where all containers restart there is no grace. What is in an unknown state may have no process for a hook.
func (j *judge) hookBeforeStop(x *instance, call string) {
	h := j.history(x.uid)
	if x.spec.Lifecycle == nil || x.spec.Lifecycle.PreStop == nil || x.state != running || h.restarting || h.gone {
		return
	}
	if j.graceOver(h, x) {
		return
	}
	switch p := x.preStop; {
	case p.inRun == 0:
		j.broken(preStopFirst, x.uid, "%s ends %s, and its preStop hook has not run", call, x.id)
	case p.inRun == j.sim.epoch && !p.ended:
		j.broken(preStopFirst, x.uid, "%s ends %s during its preStop hook", call, x.id)
	}
}

// graceOver reports whether the shortest grace period that an instance may have has passed since its end began.
func (j *judge) graceOver(h *podHistory, x *instance) bool {
	begin, ok := h.endRequested[x.id]
	if h.endsAt >= 0 && (!ok || h.endsAt < begin) {
		begin, ok = h.endsAt, true
	}
	grace := h.graceOf(x.container)
	return grace == 0 || ok && (j.clockSet >= begin || j.sim.clock.uptime-begin >= grace-graceTolerance)
}

// postStartsRan: once faults have ended, the postStart hook of each running instance has run.
func (j *judge) postStartsRan(faultless time.Duration) {
	for _, o := range j.sim.world.objects {
		for _, c := range o.containers {
			x := j.book.byID[c.id]
			if c.spec.Lifecycle == nil || c.spec.Lifecycle.PostStart == nil || c.state != running || c.termed ||
				j.unrecorded(x) || x.postStart.inRun > 0 {
				continue
			}
			if since := j.sim.clock.uptime - max(c.startedAt, faultless); since > hookWithin {
				j.broken(postStartRuns, o.uid, "%s has run for %s, and its postStart hook has not", c.id, since)
			}
		}
	}
}

// behindHooks: no main container starts while one before it in the manifest has its postStart hook to come, unless the
// start or the hook of that one failed before: it holds up nobody then. Nor does one that was requested later. Of what
// an agent that is gone has started, nobody knows whether the hook has run.
func (j *judge) behindHooks(c *container) {
	requested := j.intents[c.intent]
	if requested == nil || j.lostIntents[c.intent] {
		return
	}
	mains := c.manifest.Spec.Containers
	place := slices.IndexFunc(mains, func(m corev1.Container) bool { return m.Name == c.name })
	for i := range max(place, 0) {
		if hook := mains[i].Lifecycle; hook == nil || hook.PostStart == nil {
			continue
		}
		var before *instance
		for _, x := range j.book.ofPod[c.uid] {
			if x.name != mains[i].Name {
				continue
			}
			if x.sandbox == c.sandbox && x.alive() && !x.vanished && !j.unrecorded(x) && !j.failedBefore(x, before) &&
				j.intents[x.intent].cause <= requested.cause && !x.postStart.ended &&
				x.spec.Lifecycle != nil && x.spec.Lifecycle.PostStart != nil {
				j.broken(hooksInOrder, c.uid, "%s starts, and the postStart hook of %s has not ended", c.id, x.id)
			}
			before = x
		}
	}
}

// failedBefore reports whether the hook of the instance before an instance failed, or a start since that one ended.
func (j *judge) failedBefore(x, before *instance) bool {
	since := time.Duration(0)
	if before != nil {
		since = before.endedAt
	}
	return before != nil && before.postStartFailed ||
		slices.ContainsFunc(j.book.failedStarts[x.uid+" "+x.name], func(f failedStart) bool { return f.at >= since })
}

// hookWithin bounds how long a started container waits for its postStart hook.
const hookWithin = time.Minute
