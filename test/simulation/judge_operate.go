package simulation

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of what operators request, by the manifests and by what runs in the world.
const (
	restartsDone    = "a restart that was requested takes place"
	onceEachRequest = "a container that is never restarted runs once for each request"
	drainHolds      = "nothing runs on a drained node"
	drainOrdered    = "a drain ends pods of lower priority first"
)

// notWithOperators are the invariants that hold only where no operator interferes: they know no restart, no end and no
// rejection that was requested.
var notWithOperators = []string{
	onceMeansOnce, backOffDoubles, backOffKept, backOffReported, stopCaused, initOrder, graceKept, restartAllRule,
	rejectedRightly, preemptorStays, preStopFirst, rest,
}

// drainBook is the drain as the records have it.
type drainBook struct {
	critical, complete bool
}

// bookOperators books what operators request.
func (j *judge) bookOperators(e *journaletv1.Event) {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_DrainRequested:
		j.drain = drainBook{critical: k.DrainRequested.GetCritical()}
	case *journaletv1.Event_UncordonRequested:
		j.drain = drainBook{}
	case *journaletv1.Event_DrainProgressed:
		if !k.DrainProgressed.GetShutdown() {
			j.drain.complete = len(k.DrainProgressed.GetWaitingFor()) == 0
		}
	case *journaletv1.Event_RestartRequested:
		j.history(k.RestartRequested.GetUid()).restartsRequested++
	case *journaletv1.Event_PodEvictionDecided:
		j.endedInOrder(k.PodEvictionDecided)
	}
}

// endedInOrder: when a drain ends a pod, no pod of lower priority is left.
func (j *judge) endedInOrder(k *journaletv1.PodEvictionDecided) {
	if k.GetReason() != node.ReasonDrained {
		return
	}
	h := j.history(k.GetUid())
	for _, uid := range slices.Sorted(maps.Keys(j.pods)) {
		if x := j.pods[uid]; x.holdsShare && priorityOf(x.admittedAs) < priorityOf(h.admittedAs) {
			j.broken(drainOrdered, k.GetUid(), "it ends with priority %d, and %s has priority %d", priorityOf(h.admittedAs), uid,
				priorityOf(x.admittedAs))
		}
	}
}

// runsWhileDrained returns a container that runs although its pod is not to run on a drained node, "" for none.
func (j *judge) runsWhileDrained(critical bool) string {
	for _, o := range j.sim.world.objects {
		for _, c := range o.containers {
			if c.alive() && (critical || priorityOf(c.manifest) < systemCritical) {
				return c.id
			}
		}
	}
	return ""
}

// notRestarted returns a main container that has no instance since a count of instances, by pod. One that may run only
// once has exactly one.
func (j *judge) notRestarted(before map[string]int) (uid, name string) {
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		m := j.history(uid).manifest
		if m == nil {
			continue
		}
		for i := range m.Spec.Containers {
			c := &m.Spec.Containers[i]
			since := 0
			for _, x := range j.book.ofPod[uid] {
				if x.name == c.Name && x.n > before[uid] && x.startedAt > 0 {
					since++
				}
			}
			if since == 0 {
				return uid, c.Name
			}
			if since > 1 && runsOnceOnly(m, c) {
				j.broken(onceEachRequest, uid, "%s was started %d times for one request", c.Name, since)
			}
		}
	}
	return "", ""
}
