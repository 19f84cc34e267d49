package node

import (
	"fmt"
	"slices"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// plusHugePages returns the sum of two lists, in the order of x.
func plusHugePages(x, y []*journaletv1.HugePages) []*journaletv1.HugePages {
	return eachHugePages(x, y, saturatingSum)
}

// minusHugePages returns x without y.
func minusHugePages(x, y []*journaletv1.HugePages) []*journaletv1.HugePages {
	return eachHugePages(x, y, func(x, y int64) int64 { return x - y })
}

func eachHugePages(x, y []*journaletv1.HugePages, op func(x, y int64) int64) []*journaletv1.HugePages {
	var out []*journaletv1.HugePages
	for _, h := range x {
		out = append(out, &journaletv1.HugePages{PageBytes: h.GetPageBytes(), Bytes: op(h.GetBytes(), bytesOf(y, h))})
	}
	for _, h := range y {
		if !slices.ContainsFunc(x, func(o *journaletv1.HugePages) bool { return o.GetPageBytes() == h.GetPageBytes() }) {
			out = append(out, &journaletv1.HugePages{PageBytes: h.GetPageBytes(), Bytes: op(0, h.GetBytes())})
		}
	}
	return slices.DeleteFunc(out, func(h *journaletv1.HugePages) bool { return h.GetBytes() == 0 })
}

// bytesOf returns how much a list has in pages of the size of h.
func bytesOf(list []*journaletv1.HugePages, h *journaletv1.HugePages) int64 {
	for _, o := range list {
		if o.GetPageBytes() == h.GetPageBytes() {
			return o.GetBytes()
		}
	}
	return 0
}

// outOfHugePages returns the rejection of a pod that the node has too few huge pages for; nil if there are enough. No
// pod is preempted for huge pages.
func (a *Actor) outOfHugePages(d *journaletv1.PodDemand) *rejection {
	if len(d.GetHugePages()) == 0 {
		return nil
	}
	used := a.state.GetUsed().GetHugePages()
	for _, q := range a.state.GetPendingPreemption() {
		used = plusHugePages(used, q.GetDemand().GetHugePages())
	}
	has := a.state.GetConfig().GetAllocatable().GetHugePages()
	for _, h := range d.GetHugePages() {
		if saturatingSum(h.GetBytes(), bytesOf(used, h)) <= bytesOf(has, h) {
			continue
		}
		name := resources.HugePagesName(h.GetPageBytes())
		return &rejection{"OutOf" + name, fmt.Sprintf(
			"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
			name, h.GetBytes(), bytesOf(used, h), bytesOf(has, h))}
	}
	return nil
}
