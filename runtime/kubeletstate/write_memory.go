package kubeletstate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// memoryManagerData is the content of the memory manager's file since Kubernetes 1.37.
type memoryManagerData struct {
	PolicyName   string          `json:"policyName"`
	MachineState numaNodeMap     `json:"machineState"`
	Entries      containerMemory `json:"entries,omitempty"`
}

// memory returns the memory manager's file. With the static policy it has what is left of each NUMA node. The kubelet
// computes that again from the entries when it starts, and refuses a file that says otherwise.
func (g *Given) memory() ([]byte, error) {
	file := memoryManagerCheckpoint{PolicyName: "None", MachineState: numaNodeMap{}, Entries: containerMemory{}}
	if g.Managers.GetStaticMemory() {
		file.PolicyName, file.MachineState = "Static", g.machine()
		owners := g.withMemory()
		several := inSeveralGroups(owners)
		for _, c := range owners {
			blocks, err := file.MachineState.give(c.nodes, c.GetMemory(), several)
			if err != nil {
				return nil, fmt.Errorf("pod %s: container %s: %w", c.uid, c.GetContainer(), err)
			}
			put(file.Entries, c.uid, c.GetContainer(), blocks)
		}
	}
	file.Checksum = sumOf(&file)
	seal, err := sealOf(memoryManagerData{file.PolicyName, file.MachineState, file.Entries})
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct { // kubelets before 1.37 read the first
		memoryManagerCheckpoint
		sealed
	}{file, seal})
}

// machine returns the memory of each NUMA node while no container has exclusive memory.
func (g *Given) machine() numaNodeMap {
	m := numaNodeMap{}
	for _, n := range g.Managers.GetTopology().GetNodes() {
		id := int(n.GetId())
		node := &numaNodeState{MemoryMap: map[corev1.ResourceName]*memoryTable{}, Cells: []int{id}}
		huge := uint64(0)
		for _, h := range n.GetHugePages() {
			node.MemoryMap[kindOf(h.GetPageBytes())] = g.table(n.GetId(), h.GetPageBytes(), uint64(h.GetBytes()), 0)
			huge += uint64(h.GetBytes())
		}
		node.MemoryMap[corev1.ResourceMemory] = g.table(n.GetId(), 0, uint64(n.GetMemoryBytes()), huge)
		m[id] = node
	}
	return m
}

// table returns the table of one kind of memory in a NUMA node. total includes the bytes of other kinds.
func (g *Given) table(node uint32, page int64, total, others uint64) *memoryTable {
	t := &memoryTable{TotalMemSize: total}
	for _, r := range g.Managers.GetReservedMemory() {
		if r.GetNode() == node && r.GetPageBytes() == page {
			t.SystemReserved = uint64(r.GetBytes())
		}
	}
	t.Allocatable = total - t.SystemReserved - others
	t.Free = t.Allocatable
	return t
}

// memoryOwner is a container that has memory of NUMA nodes, in order of their numbers.
type memoryOwner struct {
	*journaletv1.ExclusiveContainer
	uid   string
	nodes []int
}

// withMemory returns the containers that have memory, the ones with the fewest nodes first: others have more to choose
// from.
func (g *Given) withMemory() (all []memoryOwner) {
	for _, uid := range g.uids() {
		for _, c := range g.Pods[uid].GetExclusive() {
			o := memoryOwner{ExclusiveContainer: c, uid: uid}
			for _, n := range c.GetMemoryNodes() {
				o.nodes = append(o.nodes, int(n))
			}
			if slices.Sort(o.nodes); len(c.GetMemory()) > 0 {
				all = append(all, o)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y memoryOwner) int { return cmp.Compare(len(x.nodes), len(y.nodes)) })
	return all
}

// inSeveralGroups returns the NUMA nodes that give memory to one container alone and to another one together with other
// nodes, or together with others. The kubelet's static policy lets that come about, where a container's CPUs choose one
// node of a group.
func inSeveralGroups(owners []memoryOwner) map[int]bool {
	several, groups := map[int]bool{}, map[int][]int{}
	for _, c := range owners {
		for _, n := range c.nodes {
			several[n] = several[n] || groups[n] != nil && !slices.Equal(groups[n], c.nodes)
			groups[n] = c.nodes
		}
	}
	return several
}

// give takes what a container has from its NUMA nodes, from the lowest as much as it has, and returns the container's
// entry: a block for each kind of memory. If a node is in several groups, it is a block for each node: of a node in two
// groups a kubelet that starts takes the group of whichever container it reads last, and refuses the file if that was
// another one before. What the container may use is all of its blocks.
func (m numaNodeMap) give(nodes []int, memory []*journaletv1.HugePages, several map[int]bool) ([]memoryBlock, error) {
	apart := slices.ContainsFunc(nodes, func(id int) bool { return several[id] })
	var blocks []memoryBlock
	for _, h := range memory {
		b := memoryBlock{NUMAAffinity: nodes, Type: kindOf(h.GetPageBytes()), Size: uint64(h.GetBytes())}
		rest := b.Size
		for _, id := range nodes {
			node := m[id]
			if node == nil || node.MemoryMap[b.Type] == nil {
				return nil, fmt.Errorf("the machine has no %s in NUMA node %d any more: delete the pod", b.Type, id)
			}
			node.NumberOfAssignments++
			t := node.MemoryMap[b.Type]
			takes := min(rest, t.Free)
			t.Reserved, t.Free, rest = t.Reserved+takes, t.Free-takes, rest-takes
			if apart {
				blocks = append(blocks, memoryBlock{NUMAAffinity: []int{id}, Type: b.Type, Size: takes})
			} else {
				node.Cells = nodes
			}
		}
		if !apart {
			blocks = append(blocks, b)
		}
	}
	return blocks, nil
}

// kindOf returns the kubelet's name for memory in pages of a size; 0: memory that is not in huge pages.
func kindOf(page int64) corev1.ResourceName {
	if page == 0 {
		return corev1.ResourceMemory
	}
	return corev1.ResourceName(resources.HugePagesName(page))
}
