package kubeletstate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/messages/journaletv1"
)

// memoryManagerCheckpoint is the memory manager's file before Kubernetes 1.37. Its checksum covers its fields and the
// fields of its parts, with their types and their order.
type memoryManagerCheckpoint struct {
	PolicyName   string          `json:"policyName"`
	MachineState numaNodeMap     `json:"machineState"`
	Entries      containerMemory `json:"entries,omitempty"`
	Checksum     checksum        `json:"checksum"`
}

type numaNodeMap map[int]*numaNodeState

type numaNodeState struct {
	NumberOfAssignments int                                  `json:"numberOfAssignments"`
	MemoryMap           map[corev1.ResourceName]*memoryTable `json:"memoryMap"`
	Cells               []int                                `json:"cells"`
}

type memoryTable struct {
	TotalMemSize   uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

// containerMemory is the memory of containers, by UID and container.
type containerMemory map[string]map[string][]memoryBlock

// memoryBlock is memory of one kind, in bytes, in some NUMA nodes together.
type memoryBlock struct {
	NUMAAffinity []int               `json:"numaAffinity"`
	Type         corev1.ResourceName `json:"type"`
	Size         uint64              `json:"size"`
}

// maxKinds bounds the kinds of memory of a container: a kernel has a few sizes of huge pages.
const maxKinds = 16

// memory reads the exclusive memory of containers, by NUMA nodes.
func (s *state) memory(data []byte) error {
	file := &memoryManagerCheckpoint{MachineState: numaNodeMap{}, Entries: containerMemory{}}
	if err := open(data, file, &file.Checksum); err != nil {
		return err
	}
	containers(s, MemoryFile, "memory", file.Entries, func(uid, name string, blocks []memoryBlock) error {
		nodes, memory, err := memoryOf(blocks)
		if err != nil || len(nodes) == 0 {
			return err
		}
		c := s.container(uid, name)
		c.MemoryNodes, c.Memory = nodes, memory
		return nil
	})
	return nil
}

// memoryOf returns the NUMA nodes of a container's memory, and its bytes by size of page.
func memoryOf(blocks []memoryBlock) (nodes []uint32, memory []*journaletv1.HugePages, err error) {
	if len(blocks) > maxKinds {
		return nil, nil, fmt.Errorf("%d kinds of memory, and at most %d are read", len(blocks), maxKinds)
	}
	for i, b := range blocks {
		at, err := nodesOf(b.NUMAAffinity)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 && !slices.Equal(at, nodes) {
			return nil, nil, errors.New("its kinds of memory are in different NUMA nodes")
		}
		nodes = at
		page, err := pageOf(b.Type)
		if err != nil {
			return nil, nil, err
		}
		if b.Size > math.MaxInt64 {
			return nil, nil, fmt.Errorf("%d bytes of memory", b.Size)
		}
		memory = append(memory, &journaletv1.HugePages{PageBytes: page, Bytes: int64(b.Size)})
	}
	byPage := func(x, y *journaletv1.HugePages) int { return cmp.Compare(x.GetPageBytes(), y.GetPageBytes()) }
	slices.SortFunc(memory, byPage)
	kinds := slices.CompactFunc(slices.Clone(memory), func(x, y *journaletv1.HugePages) bool { return byPage(x, y) == 0 })
	if len(kinds) < len(memory) {
		return nil, nil, errors.New("one kind of memory twice")
	}
	return nodes, memory, nil
}

// nodesOf returns the numbers of NUMA nodes, sorted.
func nodesOf(list []int) (nodes []uint32, err error) {
	for _, n := range list {
		if n < 0 || n > 63 { // what exclusive can align
			return nil, fmt.Errorf("a NUMA node %d: want 0 to 63", n)
		}
		nodes = append(nodes, uint32(n))
	}
	slices.Sort(nodes)
	if nodes = slices.Compact(nodes); len(nodes) == 0 {
		return nil, errors.New("memory of no NUMA node")
	}
	return nodes, nil
}

// pageOf returns the size of the pages of a kind of memory; 0: memory that is not in huge pages.
func pageOf(kind corev1.ResourceName) (int64, error) {
	if kind == corev1.ResourceMemory {
		return 0, nil
	}
	size, huge := strings.CutPrefix(string(kind), corev1.ResourceHugePagesPrefix)
	q, err := resource.ParseQuantity(size)
	if !huge || len(size) > maxNameBytes || err != nil || q.Value() <= 0 {
		return 0, fmt.Errorf("memory of the kind %q: want memory, or hugepages- with a size", kind)
	}
	return q.Value(), nil
}
