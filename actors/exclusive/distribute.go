package exclusive

import (
	"fmt"
	"math"

	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
)

// distributed takes CPUs evenly from as few NUMA nodes as can have that, in groups of so many. If there are no such
// nodes, it packs them.
func distributed(t *Topology, o *journaletv1.CpuOptions, from []int, n, group int) (cpuset.CPUSet, error) {
	if group < 1 || n%group != 0 {
		return packed(t, o.GetAcrossCores(), false, from, n)
	}
	switch {
	case n <= 0:
		return cpuset.New(), nil
	case n > len(from):
		return cpuset.New(), notEnough(n, len(from))
	}
	s := &spreading{k: &taker{t: t, free: from, need: n, spread: o.GetAcrossCores()}, n: n, group: group,
		bySocket: o.GetBySocket()}
	s.nodes, s.free = s.k.nodes(), map[int]int{}
	for _, node := range s.nodes {
		s.free[node] = len(t.in(from, byNode, node))
	}
	groups, nodes := upTo(len(t.cpus), group), len(t.numbers(t.cpus, byNode))
	needed := upTo(n, group)
	for size := upTo(needed, upTo(groups, nodes)); size <= min(needed, len(s.nodes)); size++ {
		if best := s.best(size); best != nil {
			return s.take(best)
		}
	}
	return packed(t, o.GetAcrossCores(), false, from, n)
}

// upTo returns how many groups of a size hold n.
func upTo(n, size int) int { return (n + size - 1) / size }

// spreading is a search for NUMA nodes over which CPUs are spread.
type spreading struct {
	k        *taker
	n, group int
	bySocket bool
	nodes    []int
	free     map[int]int // CPUs by node
}

// choice is a set of NUMA nodes. Each node gives the same number of CPUs; the nodes in rest also give groups in turns.
type choice struct {
	nodes, rest []int
	balance     float64
	oneSocket   bool
}

// best returns the choice of so many NUMA nodes that leaves the machine's free CPUs spread most evenly, or nil. Among
// equal choices it returns the first. With align-by-socket, a choice within a single socket comes before all others.
func (s *spreading) best(size int) *choice {
	best := choice{balance: math.MaxFloat64}
	for nodes := range combinations(s.nodes, size) {
		if best.balance == 0 && (!s.bySocket || best.oneSocket) {
			break
		}
		c, ok := s.weigh(nodes)
		if !ok {
			continue
		}
		better := c.balance < best.balance
		if s.bySocket && c.oneSocket != best.oneSocket {
			better = c.oneSocket
		}
		if better {
			best = c
		}
	}
	if best.nodes == nil {
		return nil
	}
	return &best
}

// weigh returns the choice of some nodes, with the best set of them to give the rest; false if they have too few CPUs.
func (s *spreading) weigh(nodes []int) (choice, bool) {
	c := choice{nodes: nodes, balance: math.MaxFloat64}
	all, groups := 0, 0
	for _, node := range nodes {
		all, groups = all+s.free[node], groups+s.free[node]/s.group
	}
	if all < s.n || groups*s.group < s.n {
		return c, false
	}
	each := s.n / len(nodes) / s.group * s.group
	for _, node := range nodes {
		if s.bySocket {
			each = min(each, s.free[node]/s.group*s.group)
		}
	}
	after := map[int]int{}
	for _, node := range s.nodes {
		after[node] = s.free[node]
	}
	var able []int
	for _, node := range nodes {
		if s.free[node] < each {
			return c, false
		}
		if after[node] -= each; after[node] >= s.group {
			able = append(able, node)
		}
	}
	if s.bySocket {
		c.oneSocket = len(s.k.t.numbers(s.k.t.in(s.k.free, byNode, nodes...), bySocket)) <= 1
	}
	rest := s.n - each*len(nodes)
	if rest == 0 {
		c.balance = s.deviation(after)
		return c, true
	}
	for size := len(able); size >= 1; size-- {
		for some := range combinations(able, size) {
			if left, ok := s.giveRest(after, some, rest); ok {
				if balance := s.deviation(left); balance < c.balance {
					c.balance, c.rest = balance, some
				}
			}
		}
	}
	return c, true
}

// giveRest returns how many CPUs are left after some nodes have given the rest in turns; false if they have too few.
func (s *spreading) giveRest(free map[int]int, some []int, rest int) (map[int]int, bool) {
	left, has := map[int]int{}, 0
	for _, node := range s.nodes {
		left[node] = free[node]
	}
	for _, node := range some {
		has += free[node] / s.group * s.group
	}
	if has < rest {
		return nil, false
	}
	for rest > 0 {
		for _, node := range some {
			if rest > 0 && left[node] >= s.group {
				left[node] -= s.group
				rest -= s.group
			}
		}
	}
	return left, true
}

// deviation returns the standard deviation of the nodes' free CPUs. Mean and result are rounded to thousandths, as the
// kubelet's are, so that the order of the nodes does not matter.
func (s *spreading) deviation(free map[int]int) float64 {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	sum := 0
	for _, node := range s.nodes {
		sum += free[node]
	}
	mean, squares := round(float64(sum)/float64(len(s.nodes))), 0.0
	for _, node := range s.nodes {
		d := float64(free[node]) - mean
		squares += float64(d * d) // rounded, so that no machine fuses the two operations
	}
	return round(math.Sqrt(squares / float64(len(s.nodes))))
}

// take takes the CPUs of a choice.
func (s *spreading) take(c *choice) (cpuset.CPUSet, error) {
	each := s.n / len(c.nodes) / s.group * s.group
	for _, node := range c.nodes {
		each = min(each, s.free[node]/s.group*s.group)
	}
	from := func(node, n int) {
		cpus, err := packed(s.k.t, s.k.spread, false, s.k.t.in(s.k.free, byNode, node), n)
		if err == nil {
			s.k.take(cpus.List()...)
		}
	}
	for _, node := range c.nodes {
		from(node, each)
	}
	for again := true; again && s.k.need > 0; {
		again = false
		for _, node := range c.rest {
			if s.k.need >= s.group && len(s.k.t.in(s.k.free, byNode, node)) >= s.group {
				from(node, s.group)
				again = true
			}
		}
	}
	if s.k.need != 0 {
		return cpuset.New(), fmt.Errorf("accounting error, not enough CPUs allocated, remaining: %d", s.k.need)
	}
	return cpuset.New(s.k.taken...), nil
}

// combinations yields the sets of k out of some numbers, in their order. Each is the caller's.
func combinations(numbers []int, k int) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		if k < 1 || k > len(numbers) {
			return
		}
		at := make([]int, k)
		for i := range at {
			at[i] = i
		}
		for {
			some := make([]int, k)
			for i, j := range at {
				some[i] = numbers[j]
			}
			if !yield(some) {
				return
			}
			i := k - 1
			for i >= 0 && at[i] == len(numbers)-k+i {
				i--
			}
			if i < 0 {
				return
			}
			at[i]++
			for j := i + 1; j < k; j++ {
				at[j] = at[j-1] + 1
			}
		}
	}
}
