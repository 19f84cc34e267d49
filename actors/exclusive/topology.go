package exclusive

import (
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
)

// place is where a CPU is: the numbers of its core, socket, NUMA node and last-level cache.
type place struct{ core, socket, node, cache int }

// level is one of the four numbers of a place.
type level func(place) int

func byCore(p place) int   { return p.core }
func bySocket(p place) int { return p.socket }
func byNode(p place) int   { return p.node }
func byCache(p place) int  { return p.cache }

// Topology is the machine's CPUs and memory, in a form that is quick to search.
type Topology struct {
	cpus []int // sorted
	at   map[int]place
	// cores, sockets, cpuNodes and caches count those with CPUs.
	cores, sockets, cpuNodes, caches int
	nodes                            []*journaletv1.NumaNode
}

// NewTopology returns the topology that a record holds. A CPU that it has twice counts once.
func NewTopology(n *journaletv1.NodeTopology) *Topology {
	t := &Topology{at: map[int]place{}, nodes: n.GetNodes()}
	var sockets, nodes, caches []int
	for _, c := range n.GetCores() {
		if len(c.GetCpus()) == 0 {
			continue
		}
		t.cores++
		p := place{int(c.GetCpus()[0]), int(c.GetSocket()), int(c.GetNumaNode()), int(c.GetCache())}
		sockets, nodes, caches = append(sockets, p.socket), append(nodes, p.node), append(caches, p.cache)
		for _, cpu := range c.GetCpus() {
			if _, twice := t.at[int(cpu)]; !twice {
				t.at[int(cpu)] = p
				t.cpus = append(t.cpus, int(cpu))
			}
		}
	}
	slices.Sort(t.cpus)
	t.sockets, t.cpuNodes, t.caches = count(sockets), count(nodes), count(caches)
	return t
}

// CPUs returns all CPUs.
func (t *Topology) CPUs() cpuset.CPUSet { return cpuset.New(t.cpus...) }

// count returns how many different numbers a list has, which it sorts.
func count(list []int) int {
	slices.Sort(list)
	return len(slices.Compact(list))
}

// in returns the CPUs of a list whose place has one of these numbers at a level.
func (t *Topology) in(cpus []int, number level, numbers ...int) []int {
	var out []int
	for _, cpu := range cpus {
		if slices.Contains(numbers, number(t.at[cpu])) {
			out = append(out, cpu)
		}
	}
	return out
}

// numbers returns the different numbers that some CPUs have at a level, sorted.
func (t *Topology) numbers(cpus []int, number level) []int {
	var out []int
	for _, cpu := range cpus {
		out = append(out, number(t.at[cpu]))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// perCore, perSocket and perCache are the number of CPUs in each, as the kubelet counts: all have the same number.
func (t *Topology) perCore() int   { return len(t.cpus) / max(1, t.cores) }
func (t *Topology) perSocket() int { return len(t.cpus) / max(1, t.sockets) }
func (t *Topology) perCache() int  { return len(t.cpus) / max(1, t.caches) }
