package exclusive

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
)

// taker takes free CPUs, first the CPUs with the fewest free neighbours.
type taker struct {
	t    *Topology
	free []int // sorted
	need int
	// spread takes CPUs of one core as late as possible.
	spread bool
	taken  []int
}

// take returns n of some CPUs, chosen as the kubelet's static policy does with these options.
func take(t *Topology, o *journaletv1.CpuOptions, from cpuset.CPUSet, n int) (cpuset.CPUSet, error) {
	if !o.GetAcrossNuma() {
		return packed(t, o.GetAcrossCores(), o.GetByCache(), from.List(), n)
	}
	group := 1
	if o.GetFullCores() {
		group = t.perCore()
	}
	return distributed(t, o, from.List(), n, group)
}

// packed takes whole NUMA nodes or sockets, then caches, then cores, then single CPUs.
func packed(t *Topology, spread, byCaches bool, from []int, n int) (cpuset.CPUSet, error) {
	k := &taker{t: t, free: from, need: n, spread: spread}
	switch {
	case n <= 0:
		return cpuset.New(), nil
	case n > len(from):
		return cpuset.New(), notEnough(n, len(from))
	}
	steps := []func(){k.wholeNodes, k.wholeSockets}
	if !k.nodesFirst() {
		slices.Reverse(steps)
	}
	if byCaches {
		steps = append(steps, k.closeCaches)
	}
	if !spread {
		steps = append(steps, k.wholeCores)
	}
	for _, step := range append(steps, k.singles) {
		if step(); k.need <= 0 {
			return cpuset.New(k.taken...), nil
		}
	}
	return cpuset.New(), fmt.Errorf("failed to allocate cpus")
}

func notEnough(requested, available int) error {
	return fmt.Errorf("not enough cpus available to satisfy request: requested=%d, available=%d", requested, available)
}

// nodesFirst reports whether NUMA nodes hold sockets, and not the reverse.
func (k *taker) nodesFirst() bool { return k.t.sockets >= k.t.cpuNodes }

// order returns the numbers of a level among the free CPUs, those with the fewest free CPUs first.
func (k *taker) order(number level) []int { return k.sorted(k.free, number) }

// orderWithin returns them for one parent after the other.
func (k *taker) orderWithin(parents []int, parent, number level) []int {
	var out []int
	for _, p := range parents {
		out = append(out, k.sorted(k.t.in(k.free, parent, p), number)...)
	}
	return out
}

func (k *taker) sorted(cpus []int, number level) []int {
	free := map[int]int{}
	for _, cpu := range k.free {
		free[number(k.t.at[cpu])]++
	}
	out := k.t.numbers(cpus, number)
	slices.SortStableFunc(out, func(x, y int) int { return cmp.Compare(free[x], free[y]) })
	return out
}

func (k *taker) nodes() []int {
	if k.nodesFirst() {
		return k.order(byNode)
	}
	return k.orderWithin(k.sockets(), bySocket, byNode)
}

func (k *taker) sockets() []int {
	if k.nodesFirst() {
		return k.orderWithin(k.nodes(), byNode, bySocket)
	}
	return k.order(bySocket)
}

func (k *taker) cores() []int {
	if k.nodesFirst() {
		return k.orderWithin(k.sockets(), bySocket, byCore)
	}
	return k.orderWithin(k.nodes(), byNode, byCore)
}

func (k *taker) caches() []int { return k.orderWithin(k.nodes(), byNode, byCache) }

// take takes CPUs that are free.
func (k *taker) take(cpus ...int) {
	k.taken = append(k.taken, cpus...)
	k.need -= len(cpus)
	k.free = slices.DeleteFunc(slices.Clone(k.free), func(cpu int) bool { return slices.Contains(cpus, cpu) })
}

// whole takes each of some numbers whose CPUs are all free, as long as all of them are needed. size is how many CPUs
// one has; 0: as many as the machine has there.
func (k *taker) whole(numbers []int, number level, size int) {
	var free []int
	for _, n := range numbers {
		all := cmp.Or(size, len(k.t.in(k.t.cpus, number, n)))
		if len(k.t.in(k.free, number, n)) == all {
			free = append(free, n)
		}
	}
	for _, n := range free {
		if all := k.t.in(k.t.cpus, number, n); k.need >= len(all) {
			k.take(all...)
		}
	}
}

func (k *taker) wholeNodes()   { k.whole(k.nodes(), byNode, 0) }
func (k *taker) wholeSockets() { k.whole(k.sockets(), bySocket, k.t.perSocket()) }
func (k *taker) wholeCores()   { k.whole(k.cores(), byCore, k.t.perCore()) }

// closeCaches takes the CPUs of whole caches, and the rest of one cache that has enough.
func (k *taker) closeCaches() {
	for _, cache := range k.caches() {
		if k.need >= k.t.perCache() {
			k.whole(k.caches(), byCache, 0)
		}
		if k.need <= 0 {
			return
		}
		if k.partOfCache(cache); k.need <= 0 {
			return
		}
	}
}

// partOfCache takes all that is needed from the first cores of a cache, if these have just that.
func (k *taker) partOfCache(cache int) {
	per := k.t.perCore()
	cores := k.t.numbers(k.t.in(k.free, byCache, cache), byCore)
	cores = cores[:min(len(cores), (k.need+per-1)/per)]
	cpus := k.t.in(k.free, byCore, cores...)
	if k.need%2 != 0 && per > 1 && len(cpus) > k.need {
		cpus = cpus[:len(cpus)-1] // an odd number needs one CPU of the last core
	}
	if len(cpus) == k.need {
		k.take(cpus...)
	}
}

// singles takes single CPUs.
func (k *taker) singles() {
	var all []int
	if k.spread {
		for _, s := range k.sockets() {
			all = append(all, k.t.in(k.free, bySocket, s)...)
		}
	} else {
		for _, c := range k.cores() {
			all = append(all, k.t.in(k.free, byCore, c)...)
		}
	}
	for _, cpu := range all {
		if k.need <= 0 {
			return
		}
		k.take(cpu)
	}
}
