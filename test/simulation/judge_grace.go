package simulation

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of ends: who gets how long to end, and what may run again afterwards.

// endRequested notes when the end of an instance was first requested: by its preStop hook or its stop (ADR 011). While
// all containers restart they have no grace. What the agent ends because its definition changed may run again, even if
// it exits before the stop.
func (j *judge) endRequested(h *podHistory, rec *journaletv1.Record, at time.Duration, c *journaletv1.CallRequested) {
	id := c.GetStopContainer().GetContainerId()
	if k := c.GetRunHook(); k.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
		id = k.GetContainerId()
	}
	if id == "" {
		return
	}
	if _, ok := h.endRequested[id]; !ok {
		h.endRequested[id] = at
		if h.manifest == nil || j.book.finished[rec.GetActor().GetId()] {
			h.endedUnknown[id] = true
		}
	}
	if by := h.withoutObject; by > 0 && by <= rec.GetStep().GetCause() &&
		c.GetStopContainer().GetGrace().AsDuration() > leastStop {
		j.broken(noGraceWithout, rec.GetActor().GetId(), "%s has %s to end, and its object was gone by record %d", id,
			c.GetStopContainer().GetGrace().AsDuration(), by)
	}
	if h.restarting && c.GetStopContainer() != nil {
		h.endRequested[id] = at - time.Hour
	}
	x := h.instance(id)
	m := h.manifestAt(rec.GetStep().GetCause(), j.sim.manifests)
	spec := findSpec(m, x.nameOf())
	if x != nil && spec != nil && (spec.Image != x.image || resizedByRestart(x, m, spec)) {
		h.mayRunAgain(x)
	}
}

func (c *container) nameOf() string {
	if c == nil {
		return ""
	}
	return c.name
}

// resizedByRestart reports whether a container's resizePolicy restarts it for resources that its manifest m changed.
func resizedByRestart(c *container, m *corev1.Pod, spec *corev1.Container) bool {
	restarts := slices.ContainsFunc(spec.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.RestartPolicy == corev1.RestartContainer
	})
	return restarts && !sameResources(ownOrPods(c.manifest, c.spec), ownOrPods(m, spec))
}

// instance returns an instance by its id, nil for none.
func (h *podHistory) instance(id string) *container {
	i := slices.IndexFunc(h.all, func(c *container) bool { return c.id == id })
	if i < 0 {
		return nil
	}
	return h.all[i]
}

// mayRunAgain has an instance count as a run no more: its container may run again.
func (h *podHistory) mayRunAgain(c *container) {
	h.uncount(c)
	delete(h.once, c.id)
}

// onAllRestarting: all containers of a pod restart because one of them has exited with a code, and its rule demands the
// restart for this code. They start again in the same sandbox, as in a new one.
func (j *judge) onAllRestarting(uid string, rec *journaletv1.Record, k *journaletv1.AllContainersRestarting) {
	h := j.history(uid)
	if h.restarting = !k.GetAllStopped(); h.restarting {
		c := h.instance(k.GetContainerId())
		if c == nil || c.alive() || !h.unknownEnd(c) && !j.demandsRestart(h, c, rec) {
			j.broken(restartAllRule, uid, "%s is said to demand it", k.GetContainerId())
		}
		return
	}
	if j.rebuilding {
		return
	}
	h.restartedAll = append(h.restartedAll, allRestarting{rec.GetSeq(), h.facts})
	h.facts = newFacts()
}

// demandsRestart reports whether the exit code of an instance demands that all containers restart: by the spec that it
// was created from, or, if the record of that is lost, by the manifest that the agent had.
func (j *judge) demandsRestart(h *podHistory, c *container, rec *journaletv1.Record) bool {
	const all = corev1.ContainerRestartRuleActionRestartAllContainers
	if ruleFor(c.spec, c.code) == all {
		return true
	}
	spec := findSpec(h.manifestAt(rec.GetStep().GetCause(), j.sim.manifests), c.name)
	return j.unrecorded(j.book.byID[c.id]) && spec != nil && ruleFor(spec, c.code) == all
}

// ruleFor returns the action of the first rule of a container that matches an exit code, "" for none.
func ruleFor(c *corev1.Container, code int32) corev1.ContainerRestartRuleAction {
	for _, r := range c.RestartPolicyRules {
		if r.ExitCodes != nil && slices.Contains(r.ExitCodes.Values, code) ==
			(r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return r.Action
		}
	}
	return ""
}

// unknownEnd reports whether the agent cannot know the exit code of an instance: the instance vanished, and no recorded
// observation shows it as ended.
func (h *podHistory) unknownEnd(c *container) bool { return h.vanished[c.id] && !h.shownEnd[c.id] }

// graceTolerance is how much too early a kill may come: timestamps are rounded.
const graceTolerance = 100 * time.Millisecond

const (
	// defaultGrace is the grace period of a pod whose manifest has none. Kubernetes default: 30 s.
	defaultGrace = 30 * time.Second
	// withoutObjectGrace is the one of a pod that no source has any more. kubelet: 1 s.
	withoutObjectGrace = time.Second
	// leastStop is the least that a stop has. kubelet: minimumGracePeriodInSeconds.
	leastStop = 2 * time.Second
)

// graceOf returns the shortest grace period that a container may have: its pod's, or one of its own probes'.
// An end that began while no manifest was known keeps its grace period when a source adds the pod meanwhile.
func (h *podHistory) graceOf(c *container) time.Duration {
	least := withoutObjectGrace
	if h.evictedAs > 0 && h.evictedAs == h.incarnation {
		return min(h.evictedGrace, h.graceIn(c.manifest, c))
	}
	if h.manifest != nil && !h.endedUnknown[c.id] {
		least = h.graceIn(h.manifest, c)
	}
	return min(least, h.graceIn(c.manifest, c))
}

func (h *podHistory) graceIn(m *corev1.Pod, c *container) time.Duration {
	least := defaultGrace
	if g := m.Spec.TerminationGracePeriodSeconds; g != nil {
		least = time.Duration(min(*g, math.MaxInt32)) * time.Second
	}
	began, ends := h.endRequested[c.id]
	switch {
	case h.endedByDeletion && !(ends && began < h.endsAt): // an instance that ended before keeps its own
		least = h.deletionGrace
	case h.deletionGrace > 0:
		least = min(least, h.deletionGrace)
	}
	spec := findSpec(m, c.name)
	if spec == nil {
		return least
	}
	for _, p := range []*corev1.Probe{spec.StartupProbe, spec.LivenessProbe} {
		if p != nil && p.TerminationGracePeriodSeconds != nil {
			least = min(least, time.Duration(*p.TerminationGracePeriodSeconds)*time.Second)
		}
	}
	return least
}

// killed: SIGKILL comes after the grace period, whichever call brings it. stop is when the stop began that does, 0 for
// another call. If the clock was set during the grace period, that cannot be judged, nor if the record of the stop was
// lost.
func (j *judge) killed(c *container, stop time.Duration, call string) {
	h := j.history(c.uid)
	begin, ok := h.endRequested[c.id]
	if h.endsAt >= 0 && (!ok || h.endsAt < begin) {
		begin, ok = h.endsAt, true
	}
	took := j.sim.clock.uptime - begin
	switch {
	case stop > 0 && stop <= j.lostRecordsAt:
	case !ok && stop == 0 && c.startedLate && !h.shownRun[c.id]:
		// A runtime completed the start of a call that was given up, and nothing has shown it since.
	case !ok:
		j.broken(graceKept, c.uid, "%s kills %s, and nothing has requested its end", call, c.id)
	case j.clockSet >= begin || took < 0:
	case took < h.graceOf(c)-graceTolerance:
		j.broken(graceKept, c.uid, "%s kills %s %s after its end began, and its grace period is %s", call, c.id, took,
			h.graceOf(c))
	}
}

// sameResources reports whether two containers have the same CPU and memory in their manifests.
func sameResources(a, b *corev1.ResourceRequirements) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		for _, lists := range [][2]corev1.ResourceList{{a.Requests, b.Requests}, {a.Limits, b.Limits}} {
			x, y := lists[0][name], lists[1][name]
			if x.Cmp(y) != 0 {
				return false
			}
		}
	}
	return true
}
