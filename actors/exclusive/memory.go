package exclusive

import (
	"errors"

	"github.com/journalet/journalet/messages/journaletv1"
)

// table is the memory of one NUMA node.
type table struct {
	// assignments counts what was given out; group are the nodes that it was given out with, itself included.
	assignments int
	group       Mask
	// allocatable and free are bytes by size of page; 0: memory that is not in huge pages.
	allocatable, free map[int64]int64
}

// memoryState is the memory while a pod is admitted.
type memoryState struct {
	nodes  []int
	tables map[int]*table
	// reusable is what the pod's earlier init containers had, by NUMA nodes and size of page.
	reusable map[Mask]map[int64]int64
	// had are the containers of the pod that have memory by now; plain init containers among them may give some up.
	had []*memoryOf
}

// memoryOf is what a container has.
type memoryOf struct {
	container *journaletv1.ExclusiveContainer
	nodes     Mask
	init      bool
	memory    []*journaletv1.HugePages
}

// newMemory returns the memory that is left where pods have these.
func (s *Settings) newMemory(taken []Pod) *memoryState {
	m := &memoryState{tables: map[int]*table{}, reusable: map[Mask]map[int64]int64{}}
	for _, n := range s.topology.nodes {
		id := int(n.GetId())
		t := &table{group: MaskOf(id), allocatable: map[int64]int64{}, free: map[int64]int64{}}
		ordinary := n.GetMemoryBytes() - s.reservedMemory(n.GetId(), 0)
		for _, h := range n.GetHugePages() {
			t.allocatable[h.GetPageBytes()] = max(0, h.GetBytes()-s.reservedMemory(n.GetId(), h.GetPageBytes()))
			t.free[h.GetPageBytes()] = t.allocatable[h.GetPageBytes()]
			ordinary -= h.GetBytes()
		}
		t.allocatable[0] = max(0, ordinary)
		t.free[0] = t.allocatable[0]
		m.nodes = append(m.nodes, id)
		m.tables[id] = t
	}
	for _, p := range taken {
		for _, c := range p {
			nodes := MaskOf(c.GetMemoryNodes()...)
			for _, h := range c.GetMemory() {
				m.take(nodes, h.GetPageBytes(), h.GetBytes())
			}
		}
	}
	return m
}

func (s *Settings) reservedMemory(node uint32, page int64) int64 {
	for _, r := range s.managers.GetReservedMemory() {
		if r.GetNode() == node && r.GetPageBytes() == page {
			return r.GetBytes()
		}
	}
	return 0
}

// take takes memory from some nodes, from the lowest as much as it has.
func (m *memoryState) take(nodes Mask, page, bytes int64) {
	for _, id := range nodes.nodes() {
		t := m.tables[id]
		if t == nil {
			continue // the machine has lost it
		}
		t.assignments++
		t.group = nodes
		from := min(bytes, t.free[page])
		t.free[page] -= from
		bytes -= from
	}
}

func (m *memoryState) sum(nodes Mask, page int64, column func(*table) map[int64]int64) (sum int64) {
	for _, id := range nodes.nodes() {
		if t := m.tables[id]; t != nil {
			sum += column(t)[page]
		}
	}
	return sum
}

func free(t *table) map[int64]int64        { return t.free }
func allocatable(t *table) map[int64]int64 { return t.allocatable }

// enough reports whether some nodes have what is requested, each kind with more bytes than these.
func (m *memoryState) enough(
	nodes Mask, want []*journaletv1.HugePages, column func(*table) map[int64]int64, more map[int64]int64,
) bool {
	for _, h := range want {
		if m.sum(nodes, h.GetPageBytes(), column)+more[h.GetPageBytes()] < h.GetBytes() {
			return false
		}
	}
	return true
}

// blocked reports whether memory of some nodes cannot be given out together: a node serves containers by itself, or
// always together with the same others.
func (m *memoryState) blocked(nodes Mask) bool {
	if nodes.count() == 1 {
		return false
	}
	for _, id := range nodes.nodes() {
		if t := m.tables[id]; t != nil && t.assignments > 0 && (t.group.count() == 1 || t.group != nodes) {
			return true
		}
	}
	return false
}

// hints returns the hints for memory. They are the same for each size of page.
func (m *memoryState) hints(want []*journaletv1.HugePages) Hints {
	least := len(m.nodes)
	var out Hints
	for mask := range masks(m.nodes) {
		if !m.enough(mask, want, allocatable, nil) {
			continue
		}
		least = min(least, mask.count())
		grouped := mask.count() == 1 && m.tables[mask.nodes()[0]].group.count() > 1
		if grouped || m.blocked(mask) || !m.enough(mask, want, free, m.reusable[mask]) {
			continue
		}
		out = append(out, Hint{Nodes: mask})
	}
	for i := range out {
		out[i].Preferred = out[i].Nodes.count() == least
	}
	return out
}

// forTopology returns the hints as the topology manager sees them: one list a size of page. As in the kubelet, memory
// that no set of nodes has is no preference; it is refused when it is allocated.
func (m *memoryState) forTopology(want []*journaletv1.HugePages) []Hints {
	hints := m.hints(want)
	if len(hints) == 0 {
		return []Hints{anywhere()}
	}
	var all []Hints
	for range want {
		all = append(all, hints)
	}
	return all
}

// narrowest returns the best of some hints: preferred ones first, then the narrowest.
func narrowest(hints Hints) (best Hint) {
	for i, h := range hints {
		better := i == 0 || h.Preferred && !best.Preferred ||
			h.Preferred == best.Preferred && narrower(h.Nodes, best.Nodes) < 0
		if better {
			best = h
		}
	}
	return best
}

// choose returns the NUMA nodes that a container's memory comes from: the nodes of the hint, and more nodes if these
// have too little.
func (m *memoryState) choose(want []*journaletv1.HugePages, hint Hint) (Mask, error) {
	if hint.Nodes == 0 {
		hints := m.hints(want)
		if len(hints) == 0 {
			return 0, errors.New("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory " +
				"is available")
		}
		best := narrowest(hints)
		if !best.Preferred && hint.Preferred {
			return 0, errors.New("[memorymanager] failed to find the default preferred hint")
		}
		hint = best
	}
	if !m.enough(hint.Nodes, want, free, nil) {
		var wider Hints
		for _, h := range m.hints(want) {
			if h.Nodes&hint.Nodes == hint.Nodes {
				wider = append(wider, h)
			}
		}
		if len(wider) == 0 {
			return 0, errors.New("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
		}
		best := narrowest(wider)
		if !best.Preferred && hint.Preferred {
			return 0, errors.New("[memorymanager] failed to find the extended preferred hint")
		}
		hint = best
	}
	if m.blocked(hint.Nodes) {
		return 0, errors.New("[memorymanager] preferred hint violates NUMA node allocation")
	}
	return hint.Nodes, nil
}

// allocate takes the memory of a container.
func (m *memoryState) allocate(r *journaletv1.ExclusiveRequest, c *journaletv1.ExclusiveContainer, hint Hint) *Refusal {
	nodes, err := m.choose(r.GetMemory(), hint)
	if err != nil {
		return unexpected(err)
	}
	for _, id := range nodes.nodes() {
		c.MemoryNodes = append(c.MemoryNodes, uint32(id))
	}
	has := &memoryOf{container: c, nodes: nodes, init: r.GetInit()}
	again := m.reusable[nodes]
	if again == nil {
		again = map[int64]int64{}
		m.reusable[nodes] = again
	}
	for _, h := range r.GetMemory() {
		page, bytes := h.GetPageBytes(), h.GetBytes()
		has.memory = append(has.memory, &journaletv1.HugePages{PageBytes: page, Bytes: bytes})
		m.take(nodes, page, max(0, bytes-again[page]))
		if r.GetInit() {
			again[page] = max(again[page], bytes)
		} else {
			again[page] = max(0, again[page]-bytes)
		}
		m.giveUp(nodes, page, bytes)
	}
	c.Memory = has.memory
	m.had = append(m.had, has)
	return nil
}

// giveUp takes memory that a container has now away from the pod's earlier init containers, so that it counts once.
func (m *memoryState) giveUp(nodes Mask, page, bytes int64) {
	for _, before := range m.had {
		if !before.init || before.nodes != nodes {
			continue
		}
		for _, h := range before.memory {
			if h.GetPageBytes() == page {
				less := min(h.GetBytes(), bytes)
				h.Bytes -= less
				bytes -= less
			}
		}
	}
}
