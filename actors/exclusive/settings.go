package exclusive

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Bounds of a machine.
const (
	// maxCPU is the highest number of a CPU: several times what a kernel can have, 8192.
	maxCPU = 1<<16 - 1
	// MostNodes is how many NUMA nodes are aligned at most: each set of them is a hint. kubelet default:
	// max-allowable-numa-nodes, 8.
	MostNodes = 12
)

// Settings are the settings of the resource managers, with what follows from them.
type Settings struct {
	managers *journaletv1.ResourceManagers
	topology *Topology
	// nodes are all NUMA nodes.
	nodes Mask
	// reserved are the CPUs that nobody gets exclusively, reservedCores all CPUs of their cores.
	reserved, reservedCores cpuset.CPUSet
}

// NewSettings returns the settings of a configuration; nil if no container gets exclusive resources, and nothing is
// aligned.
func NewSettings(managers *journaletv1.ResourceManagers) *Settings {
	aligned := managers.GetTopologyPolicy() != journaletv1.TopologyPolicy_TOPOLOGY_POLICY_UNSPECIFIED
	if !managers.GetStaticCpus() && !managers.GetStaticMemory() && !aligned {
		return nil
	}
	s := &Settings{managers: managers, topology: NewTopology(managers.GetTopology()),
		reserved: Parse(managers.GetReservedCpus())}
	for _, n := range s.topology.nodes {
		s.nodes |= MaskOf(n.GetId())
	}
	cores := s.topology.numbers(s.reserved.Intersection(s.topology.CPUs()).List(), byCore)
	s.reservedCores = cpuset.New(s.topology.in(s.topology.cpus, byCore, cores...)...)
	return s
}

// Reserved returns n CPUs that nobody is to have exclusively. It chooses them as the static policy chooses the CPUs of
// a container (kubelet: the lowest cores).
func Reserved(t *journaletv1.NodeTopology, o *journaletv1.CpuOptions, n int) (cpuset.CPUSet, error) {
	all := NewTopology(t)
	return take(all, o, all.CPUs(), n)
}

// Parse returns the CPUs of a list such as 0-1,8, as String of a set writes it. What is no such list, or has a CPU
// beyond 65535, has none: records hold only lists of this agent.
func Parse(list string) cpuset.CPUSet {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from < 0 || to > maxCPU || len(cpus) > maxCPU {
			return cpuset.New()
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpuset.New(cpus...)
}

// Shared returns the CPUs of all containers without exclusive CPUs, where pods have these; the empty set if CPUs are
// not given out.
func (s *Settings) Shared(taken []Pod) cpuset.CPUSet {
	if s == nil || !s.managers.GetStaticCpus() {
		return cpuset.New()
	}
	if left := s.Left(taken); !left.IsEmpty() {
		return left
	}
	// Only with strict-cpu-reservation: an empty set would mean every CPU, also the exclusive CPUs of others.
	return s.reserved
}

// Left returns the CPUs that are left for sharing where pods have these: without the reserved CPUs under
// strict-cpu-reservation. It may be empty.
func (s *Settings) Left(taken []Pod) cpuset.CPUSet {
	left := s.topology.CPUs()
	if s.managers.GetCpuOptions().GetStrictReservation() {
		left = left.Difference(s.reserved)
	}
	for _, p := range taken {
		left = left.Difference(p.CPUs())
	}
	return left
}

// Allocatable returns what containers may get exclusively while no pod has anything: CPUs, and memory of NUMA nodes by
// page size. Without a static policy for CPUs or for memory, that result is empty.
func (s *Settings) Allocatable() (cpus cpuset.CPUSet, memory []*journaletv1.NumaMemory) {
	cpus = cpuset.New()
	if s == nil {
		return cpus, nil
	}
	if s.managers.GetStaticCpus() {
		cpus = s.topology.CPUs().Difference(s.reserved)
	}
	if !s.managers.GetStaticMemory() {
		return cpus, nil
	}
	m := s.newMemory(nil)
	for _, id := range m.nodes {
		byPage := m.tables[id].allocatable
		for _, page := range slices.Sorted(maps.Keys(byPage)) {
			if byPage[page] > 0 {
				memory = append(memory, &journaletv1.NumaMemory{Node: uint32(id), PageBytes: page, Bytes: byPage[page]})
			}
		}
	}
	return cpus, memory
}

// Check returns why a machine and its settings do not go together, nil if they do.
func Check(managers *journaletv1.ResourceManagers) error {
	t := NewTopology(managers.GetTopology())
	aligned := managers.GetTopologyPolicy() != journaletv1.TopologyPolicy_TOPOLOGY_POLICY_UNSPECIFIED
	if (aligned || managers.GetStaticMemory()) && len(t.nodes) > MostNodes {
		return fmt.Errorf("this machine has %d NUMA nodes, and at most %d can be aligned; turn the topology manager and "+
			"the memory manager off", len(t.nodes), MostNodes)
	}
	for _, n := range t.nodes {
		if n.GetId() > 63 {
			return fmt.Errorf("this machine has a NUMA node %d, and only those up to 63 can be aligned", n.GetId())
		}
	}
	if managers.GetCpuOptions().GetBySocket() && t.sockets > t.cpuNodes {
		return fmt.Errorf("align-by-socket is not compatible with this machine: it has more sockets (%d) than NUMA nodes "+
			"(%d)", t.sockets, t.cpuNodes)
	}
	return nil
}
