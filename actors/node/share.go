package node

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Resource is one of what pods take a share of.
type Resource int

// The resources, in the order in which the first that is short is told.
const (
	Pods Resource = iota
	CPU
	Memory
	EphemeralStorage
	resources
)

func (r Resource) String() string {
	return [resources]string{"pods", "cpu", "memory", "ephemeral-storage"}[r]
}

// Shortage is how much of a resource is missing, in the resource's unit: pods, thousandths of a CPU, bytes.
type Shortage struct {
	Resource Resource
	Missing  int64
}

// share is an amount of each resource.
type share [resources]int64

func shareOf(d *journaletv1.PodDemand) share {
	return share{1, d.GetMilliCpu(), d.GetMemoryBytes(), d.GetEphemeralStorageBytes()}
}

func (x share) plus(y share) share {
	for r := range x {
		x[r] += y[r]
	}
	return x
}

func (x share) minus(y share) share {
	for r := range x {
		x[r] -= y[r]
	}
	return x
}

// capacity is what the node has for pods.
func (a *Actor) capacity() share {
	c := a.state.GetConfig()
	has := share{math.MaxInt64, c.GetAllocatable().GetMilliCpu(), c.GetAllocatable().GetMemoryBytes(), c.GetAllocatable().GetEphemeralStorageBytes()}
	if most := c.GetMaxPods(); most > 0 {
		has[Pods] = int64(most)
	}
	return has
}

// running is what the pods have that were admitted and have not ended.
func (a *Actor) running() share {
	x := shareOf(a.state.GetUsed())
	x[Pods] = int64(a.state.GetRunning())
	return x
}

// used is running and what is kept for pods whose admission, and for resizes that are held.
func (a *Actor) used() share {
	x := a.running()
	for _, q := range a.state.GetPendingPreemption() {
		x = x.plus(shareOf(q.GetDemand()))
	}
	for _, uid := range slices.Sorted(maps.Keys(a.state.Resizes)) {
		x = x.plus(a.kept(uid))
	}
	return x
}

// usedAfter is what is used when those have ended that were told to end for others.
func (a *Actor) usedAfter() share {
	x := a.used()
	if a.state.GetPreempting() == 0 {
		return x
	}
	for _, uid := range slices.Sorted(maps.Keys(a.state.Pods)) {
		if p := a.state.Pods[uid]; p.GetPreempted() && !p.GetTerminated() {
			x = x.minus(shareOf(p.GetDemand()))
		}
	}
	return x
}

// lacks tells what the node has too little of for one more pod.
func (a *Actor) lacks(d *journaletv1.PodDemand, used share) []Shortage {
	var short []Shortage
	want, has := shareOf(d), a.capacity()
	for r := range resources {
		if missing := want[r] - (has[r] - used[r]); want[r] > 0 && missing > 0 {
			short = append(short, Shortage{Resource: r, Missing: missing})
		}
	}
	return short
}

// outOf is the rejection for a shortage, in the kubelet's words; nil for none.
func (a *Actor) outOf(short []Shortage, d *journaletv1.PodDemand, used share) *rejection {
	if len(short) == 0 {
		return nil
	}
	r := short[0].Resource
	return &rejection{"OutOf" + r.String(), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		r, shareOf(d)[r], used[r], a.capacity()[r])}
}
