package exclusive

import (
	"fmt"

	"k8s.io/utils/cpuset"
)

// cpuState are the CPUs while a pod is admitted.
type cpuState struct {
	s *Settings
	// shared are the CPUs without an exclusive owner, reusable the CPUs of the pod's earlier init containers.
	shared, reusable cpuset.CPUSet
}

// hints returns the hints for a number of CPUs.
func (c *cpuState) hints(n int) Hints {
	if n == 0 {
		return anywhere()
	}
	t := c.s.topology
	nodes := t.numbers(t.cpus, byNode)
	free := c.shared.Difference(c.s.reserved)
	least := len(nodes)
	var out Hints
	for mask := range masks(nodes) {
		if len(t.in(t.cpus, byNode, mask.nodes()...)) >= n {
			least = min(least, mask.count())
		}
		reused := t.in(c.reusable.List(), byNode, mask.nodes()...)
		if len(reused) < c.reusable.Size() {
			continue // the pod is to stay where it is
		}
		if len(reused)+len(t.in(free.List(), byNode, mask.nodes()...)) >= n {
			out = append(out, Hint{Nodes: mask})
		}
	}
	for i := range out {
		out[i].Preferred = out[i].Nodes.count() == least || c.inLeastSockets(out[i].Nodes, least)
	}
	return out
}

// inLeastSockets reports whether, with align-by-socket, some NUMA nodes are in as few sockets as the least possible
// number of NUMA nodes.
func (c *cpuState) inLeastSockets(m Mask, least int) bool {
	t := c.s.topology
	per := t.cpuNodes / max(1, t.sockets)
	if !c.s.managers.GetCpuOptions().GetBySocket() || per == 0 {
		return false
	}
	return len(t.numbers(t.in(t.cpus, byNode, m.nodes()...), bySocket)) == upTo(least, per)
}

// allocate takes n CPUs, the CPUs of the hint's NUMA nodes first.
func (c *cpuState) allocate(n int, hint Hint) (cpuset.CPUSet, *Refusal) {
	if r := c.wholeCores(n); r != nil {
		return cpuset.New(), r
	}
	t, o := c.s.topology, c.s.managers.GetCpuOptions()
	free := c.shared.Difference(c.s.reserved).Union(c.reusable)
	got := cpuset.New()
	if hint.Nodes != 0 {
		near := t.in(free.List(), byNode, hint.Nodes.nodes()...)
		if o.GetBySocket() {
			sockets := t.numbers(t.in(t.cpus, byNode, hint.Nodes.nodes()...), bySocket)
			near = t.in(free.List(), bySocket, sockets...)
		}
		var err error
		if got, err = take(t, o, cpuset.New(near...), min(n, len(near))); err != nil {
			return cpuset.New(), unexpected(err)
		}
	}
	rest, err := take(t, o, free.Difference(got), n-got.Size())
	if err != nil {
		return cpuset.New(), unexpected(err)
	}
	got = got.Union(rest)
	c.shared = c.shared.Difference(got)
	return got, nil
}

// wholeCores refuses, with full-pcpus-only, what is not a number of whole cores that are free.
func (c *cpuState) wholeCores(n int) *Refusal {
	per := c.s.topology.perCore()
	if !c.s.managers.GetCpuOptions().GetFullCores() || per == 0 {
		return nil
	}
	if n%per != 0 {
		return &Refusal{ReasonSMTAlignment, fmt.Sprintf(
			"SMT Alignment Error: requested %d cpus not multiple cpus per core = %d", n, per)}
	}
	if free := c.shared.Difference(c.s.reservedCores).Size(); n > free {
		return &Refusal{ReasonSMTAlignment, fmt.Sprintf("SMT Alignment Error: not enough free physical CPUs: available "+
			"physical CPUs = %d, requested CPUs = %d, CPUs per core = %d", free, n, per)}
	}
	return nil
}

// masks yields every set of some NUMA nodes but the empty one, smaller sets first.
func masks(nodes []int) func(yield func(Mask) bool) {
	return func(yield func(Mask) bool) {
		for size := 1; size <= len(nodes); size++ {
			for some := range combinations(nodes, size) {
				if !yield(MaskOf(some...)) {
					return
				}
			}
		}
	}
}
