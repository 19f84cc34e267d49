package node

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Resource is a resource of the node that pods share.
type Resource int

// The resources. Of several that are short, a rejection names the first one.
const (
	Pods Resource = iota
	CPU
	Memory
	EphemeralStorage
	numberOfResources
)

func (r Resource) String() string {
	return [numberOfResources]string{"pods", "cpu", "memory", "ephemeral-storage"}[r]
}

// Shortage is how much of a resource is missing, in the resource's unit: pods, thousandths of a CPU, bytes.
type Shortage struct {
	Resource Resource
	Missing  int64
}

// share is an amount of each resource.
type share [numberOfResources]int64

func shareOf(d *journaletv1.PodDemand) share {
	return share{1, d.GetMilliCpu(), d.GetMemoryBytes(), d.GetEphemeralStorageBytes()}
}

func (x share) plus(y share) share {
	for r := range x {
		x[r] = saturatingSum(x[r], y[r])
	}
	return x
}

// saturatingSum returns the sum of two amounts, or the nearest amount that an int64 holds: a demand may be as large as
// that, and a sum that wraps around would make room for it.
func saturatingSum(x, y int64) int64 {
	switch sum := x + y; {
	case x > 0 && y > 0 && sum < 0:
		return math.MaxInt64
	case x < 0 && y < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

func (x share) minus(y share) share {
	for r := range x {
		x[r] -= y[r]
	}
	return x
}

// capacity returns what is allocatable to pods.
func (a *Actor) capacity() share {
	c := a.state.GetConfig()
	amount := c.GetAllocatable()
	has := share{math.MaxInt64, amount.GetMilliCpu(), amount.GetMemoryBytes(), amount.GetEphemeralStorageBytes()}
	if most := c.GetMaxPods(); most > 0 {
		has[Pods] = int64(most)
	}
	return has
}

// running returns the share of the pods that are admitted and not terminated.
func (a *Actor) running() share {
	x := shareOf(a.state.GetUsed())
	x[Pods] = int64(a.state.GetRunning())
	return x
}

// used returns the share of running pods, and what is reserved for pending admissions and resizes.
func (a *Actor) used() share {
	x := a.running()
	for _, q := range a.state.GetPendingPreemption() {
		x = x.plus(shareOf(q.GetDemand()))
	}
	for _, uid := range slices.Sorted(maps.Keys(a.state.Resizes)) {
		x = x.plus(a.reserved(uid))
	}
	return x
}

// usedAfterVictims returns what is used once all preempted pods have terminated.
func (a *Actor) usedAfterVictims() share {
	x := a.used()
	if a.state.GetPreempting() == 0 {
		return x
	}
	for _, uid := range slices.Sorted(maps.Keys(a.victims)) {
		x = x.minus(shareOf(a.state.Pods[uid].GetDemand()))
	}
	return x
}

// shortages returns what the node has too little of for one more pod.
func (a *Actor) shortages(d *journaletv1.PodDemand, used share) []Shortage {
	var short []Shortage
	want, has := shareOf(d), a.capacity()
	for r := range numberOfResources {
		missing := saturatingSum(want[r], saturatingSum(used[r], -has[r]))
		if want[r] > 0 && missing > 0 {
			short = append(short, Shortage{Resource: r, Missing: missing})
		}
	}
	return short
}

// rejectShort returns the rejection for the first of some shortages, in the kubelet's words; nil for none.
func (a *Actor) rejectShort(short []Shortage, d *journaletv1.PodDemand, used share) *rejection {
	if len(short) == 0 {
		return nil
	}
	r := short[0].Resource
	return &rejection{"OutOf" + r.String(), fmt.Sprintf(
		"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		r, shareOf(d)[r], used[r], a.capacity()[r])}
}
