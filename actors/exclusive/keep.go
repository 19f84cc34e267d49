package exclusive

import (
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Keep returns what the containers of a pod keep of what they had before the journal began, where other pods have
// these. It returns false if a container cannot have all of it as it was: then the pod is to be placed like any other.
// Whether it would be placed so by now does not matter. What is not given out any more is not kept.
func (s *Settings) Keep(requests *journaletv1.ExclusiveRequests, had Pod, taken []Pod) (Pod, bool) {
	if s == nil {
		return nil, true
	}
	k := &keeping{s: s, free: s.topology.CPUs().Difference(s.reserved), own: cpuset.New()}
	if s.managers.GetStaticMemory() {
		k.memory = s.newMemory(taken)
	}
	for _, p := range taken {
		k.free = k.free.Difference(p.CPUs())
	}
	var out Pod
	for _, r := range requests.GetContainers() {
		c, ok := k.container(r, had.Of(r.GetContainer()))
		if !ok {
			return nil, false
		}
		if c.GetCpus() != "" || len(c.GetMemoryNodes()) > 0 {
			out = append(out, c)
		}
	}
	return out, true
}

// keeping is the admission of a pod that keeps what it had.
type keeping struct {
	s *Settings
	// free are the CPUs that no other pod has, own the CPUs of the pod's containers so far that run beside the next
	// container.
	free, own cpuset.CPUSet
	memory    *memoryState // nil: memory is not given out
}

func (k *keeping) container(r *journaletv1.ExclusiveRequest, had *journaletv1.ExclusiveContainer) (
	*journaletv1.ExclusiveContainer, bool,
) {
	c := &journaletv1.ExclusiveContainer{Container: r.GetContainer()}
	if n := wholeCPUs(r); k.s.managers.GetStaticCpus() && n > 0 {
		cpus := Parse(had.GetCpus())
		if cpus.Size() != n || !cpus.IsSubsetOf(k.free.Difference(k.own)) {
			return nil, false
		}
		if !r.GetInit() {
			k.own = k.own.Union(cpus)
		}
		c.Cpus = cpus.String()
	}
	if k.memory != nil && len(r.GetMemory()) > 0 {
		if !k.memory.keep(r, had) {
			return nil, false
		}
		c.MemoryNodes, c.Memory = had.GetMemoryNodes(), had.GetMemory()
	}
	return c, true
}

// keep takes the memory that a container had, if that is what it requests, and can be taken. An init container may have
// left some of its memory to others of the pod.
func (m *memoryState) keep(r *journaletv1.ExclusiveRequest, had *journaletv1.ExclusiveContainer) bool {
	for _, id := range had.GetMemoryNodes() {
		if m.tables[int(id)] == nil {
			return false
		}
	}
	nodes := MaskOf(had.GetMemoryNodes()...)
	if nodes == 0 || m.blocked(nodes) || nodes.count() == 1 && m.tables[nodes.nodes()[0]].group.count() > 1 ||
		!m.enough(nodes, had.GetMemory(), free, nil) || len(had.GetMemory()) != len(r.GetMemory()) {
		return false
	}
	for _, h := range had.GetMemory() {
		same := func(want *journaletv1.HugePages) bool {
			return want.GetPageBytes() == h.GetPageBytes() &&
				(want.GetBytes() == h.GetBytes() || r.GetInit() && h.GetBytes() < want.GetBytes())
		}
		if h.GetBytes() < 0 || !slices.ContainsFunc(r.GetMemory(), same) {
			return false
		}
		m.take(nodes, h.GetPageBytes(), h.GetBytes())
	}
	return true
}
