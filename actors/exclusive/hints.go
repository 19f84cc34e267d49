package exclusive

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Mask is a set of NUMA nodes, a bit each.
type Mask uint64

// MaskOf returns the mask of some nodes, without nodes that no mask can hold. Check refuses a machine that has such
// nodes.
func MaskOf[N int | uint32 | int64](nodes ...N) (m Mask) {
	for _, n := range nodes {
		if n >= 0 && n < 64 {
			m |= 1 << n
		}
	}
	return m
}

func (m Mask) has(node int) bool { return node >= 0 && node < 64 && m&(1<<node) != 0 }
func (m Mask) count() int        { return bits.OnesCount64(uint64(m)) }

func (m Mask) nodes() []int {
	var out []int
	for n := range 64 {
		if m.has(n) {
			out = append(out, n)
		}
	}
	return out
}

// narrower compares two masks: first by their number of nodes, then by their value.
func narrower(a, b Mask) int { return cmp.Or(cmp.Compare(a.count(), b.count()), cmp.Compare(a, b)) }

// Hint is a set of NUMA nodes that can serve a request.
type Hint struct {
	// Nodes are its NUMA nodes; 0: any.
	Nodes Mask
	// Preferred: no smaller set could serve the request, even if all of it were free.
	Preferred bool
}

// Hints are those for one resource of a container or a pod. None: nothing can serve it.
type Hints []Hint

// anywhere are the hints for what has no preference.
func anywhere() Hints { return Hints{{Preferred: true}} }

// merge brings the hints for several resources together, and reports whether the policy admits the result. As in the
// kubelet it is the best of all intersections of one hint of each.
func (s *Settings) merge(all []Hints) (Hint, bool) {
	policy := s.managers.GetTopologyPolicy()
	if policy == journaletv1.TopologyPolicy_TOPOLOGY_POLICY_UNSPECIFIED {
		return Hint{}, true
	}
	single := policy == journaletv1.TopologyPolicy_TOPOLOGY_POLICY_SINGLE_NUMA_NODE
	all = slices.Clone(all)
	for i, hints := range all {
		if len(hints) == 0 {
			all[i] = Hints{{}}
		}
		if single {
			all[i] = slices.DeleteFunc(slices.Clone(all[i]), func(h Hint) bool {
				return !h.Preferred || h.Nodes.count() > 1
			})
		}
	}
	best := s.bestOf(intersections(s.nodes, all), s.most(all), !single && s.managers.GetPreferClosest())
	if single && best.Nodes == s.nodes {
		best.Nodes = 0
	}
	return best, best.Preferred || policy == journaletv1.TopologyPolicy_TOPOLOGY_POLICY_BEST_EFFORT
}

// most returns how many nodes the resource needs that needs the most.
func (s *Settings) most(all []Hints) int {
	most := 0
	for _, hints := range all {
		var least Mask
		for _, h := range hints {
			if h.Nodes != 0 && (least == 0 || narrower(h.Nodes, least) < 0) {
				least = h.Nodes
			}
		}
		most = max(most, least.count())
	}
	return most
}

// intersections returns the intersections of one hint of each resource. One is preferred if all of them are, and are
// equal. Resources are added one after the other, so that there are never more results than sets of nodes.
func intersections(every Mask, all []Hints) []Hint {
	type partial struct {
		Hint
		some bool // a hint with nodes is among them
	}
	reached := []partial{{Hint: Hint{every, true}}}
	for _, hints := range all {
		var next []partial
		seen := map[partial]bool{}
		for _, p := range reached {
			for _, h := range hints {
				q := p
				q.Preferred = q.Preferred && h.Preferred
				if h.Nodes != 0 {
					q.Preferred = q.Preferred && (!q.some || q.Nodes == h.Nodes)
					q.Nodes, q.some = q.Nodes&h.Nodes, true
				}
				if !seen[q] {
					seen[q] = true
					next = append(next, q)
				}
			}
		}
		reached = next
	}
	var out []Hint
	for _, p := range reached {
		out = append(out, p.Hint)
	}
	return out
}

// bestOf returns the best hint: a preferred one, and of those the narrowest. Without one, the hint of most nodes is the
// best, then those with fewer, the more the better, then those with more, the fewer the better. Without any it is all
// nodes, not preferred.
func (s *Settings) bestOf(list []Hint, most int, closest bool) Hint {
	rank := func(h Hint) (class, distance int) {
		switch n := h.Nodes.count(); {
		case h.Preferred:
			return 0, 0
		case n <= most:
			return 1, most - n
		default:
			return 2, n
		}
	}
	best := Hint{Nodes: s.nodes}
	found := false
	for _, h := range list {
		if h.Nodes == 0 {
			continue
		}
		if found {
			c, d := rank(h)
			bc, bd := rank(best)
			if cmp.Or(cmp.Compare(c, bc), cmp.Compare(d, bd), s.compareMasks(h.Nodes, best.Nodes, closest)) >= 0 {
				continue
			}
		}
		best, found = h, true
	}
	return best
}

// compareMasks compares two masks: the narrower first, or, of as many nodes, those closest to each other.
func (s *Settings) compareMasks(a, b Mask, closest bool) int {
	if !closest || a.count() != b.count() {
		return narrower(a, b)
	}
	return cmp.Or(cmp.Compare(s.distance(a), s.distance(b)), cmp.Compare(a, b))
}

// distance returns the sum of the distances of some nodes to each other. For as many nodes it orders as their average.
func (s *Settings) distance(m Mask) (sum uint64) {
	for i, a := range s.topology.nodes {
		if !m.has(int(a.GetId())) {
			continue
		}
		for j, b := range s.topology.nodes {
			if m.has(int(b.GetId())) && j < len(s.topology.nodes[i].GetDistances()) {
				sum += uint64(a.GetDistances()[j])
			}
		}
	}
	return sum
}
