package kubeletstate

import (
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
		for _, uid := range g.uids() {
			for _, c := range g.Pods[uid].GetExclusive() {
				blocks, err := file.MachineState.give(c)
				if err != nil {
					return nil, fmt.Errorf("pod %s: container %s: %w", uid, c.GetContainer(), err)
				}
				if len(blocks) > 0 {
					put(file.Entries, uid, c.GetContainer(), blocks)
				}
			}
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

// give takes what a container has from its NUMA nodes, from the lowest as much as it has, and returns the container's
// entry.
func (m numaNodeMap) give(c *journaletv1.ExclusiveContainer) (blocks []memoryBlock, err error) {
	var nodes []int
	for _, n := range c.GetMemoryNodes() {
		nodes = append(nodes, int(n))
	}
	slices.Sort(nodes)
	for _, h := range c.GetMemory() {
		b := memoryBlock{NUMAAffinity: nodes, Type: kindOf(h.GetPageBytes()), Size: uint64(h.GetBytes())}
		rest := b.Size
		for _, id := range nodes {
			node := m[id]
			if node == nil || node.MemoryMap[b.Type] == nil {
				return nil, fmt.Errorf("the machine has no %s in NUMA node %d any more: delete the pod", b.Type, id)
			}
			node.NumberOfAssignments++
			node.Cells = nodes
			t := node.MemoryMap[b.Type]
			takes := min(rest, t.Free)
			t.Reserved, t.Free, rest = t.Reserved+takes, t.Free-takes, rest-takes
		}
		blocks = append(blocks, b)
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
