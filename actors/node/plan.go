package node

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// DrainPlan is a drain as it stands, or as a request would begin it.
type DrainPlan struct {
	// Drained reports whether pods wait for an uncordon, Complete that no pod is left to end, ShuttingDown that the
	// machine shuts down.
	Drained, Complete, ShuttingDown bool
	// Client is who requested it.
	Client string
	Since  time.Time
	// Pods are the pods that run or that the drain ended, in the order of their ends.
	Pods []PlannedPod
}

// PlannedPod is one pod of a DrainPlan.
type PlannedPod struct {
	UID, Namespace, Name string
	Priority             int32
	// State is "waits", "ends", "ended" or "stays".
	State string
}

// Plan returns the drain as it stands, with nil; else as a request would change it.
func (a *Actor) Plan(q *journaletv1.DrainRequested) DrainPlan {
	d := a.state.GetDrain()
	plan := DrainPlan{
		Drained: underWay(d), Complete: underWay(d) && d.GetComplete() && q == nil,
		ShuttingDown: underWay(a.state.GetShutdown()), Client: d.GetRequest().GetClient(),
	}
	if plan.Drained {
		plan.Since = d.GetSince().AsTime()
	}
	if q == nil {
		q = d.GetRequest()
	}
	for _, uid := range slices.Sorted(maps.Keys(a.state.Pods)) {
		p := a.state.Pods[uid]
		_, was := slices.BinarySearch(d.GetEnded(), uid)
		state := "waits"
		switch {
		case was && p.GetTerminated():
			state = "ended"
		case p.GetTerminated():
			continue
		case was:
			state = "ends"
		case p.GetPriority() >= systemCritical && !q.GetCritical():
			state = "stays"
		}
		namespace, name, _ := strings.Cut(p.GetFullName(), "/")
		plan.Pods = append(plan.Pods, PlannedPod{
			UID: uid, Namespace: namespace, Name: name, Priority: p.GetPriority(), State: state,
		})
	}
	slices.SortStableFunc(plan.Pods, func(x, y PlannedPod) int {
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return plan
}

// ShuttingDown reports whether a shutdown of the machine was signaled in this boot and not cancelled, and whether it
// has no pod left to end.
func (a *Actor) ShuttingDown(bootID string) (active, complete bool) {
	d := a.state.GetShutdown()
	active = underWay(d) && d.GetBootId() == bootID
	return active, active && d.GetComplete()
}
