package kubeletstate

import (
	"errors"
	"fmt"
	"maps"
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

// maxBlocks bounds the blocks of a container: a kernel has a few sizes of huge pages, and a machine 64 NUMA nodes at
// most.
const maxBlocks = 16 * 64

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

// memoryOf returns the NUMA nodes of a container's memory, and its bytes by size of page. A kind may have a block for
// each node (see numaNodeMap.give), and all kinds are in the same nodes.
func memoryOf(blocks []memoryBlock) (nodes []uint32, memory []*journaletv1.HugePages, err error) {
	if len(blocks) > maxBlocks {
		return nil, nil, fmt.Errorf("%d blocks of memory, and at most %d are read", len(blocks), maxBlocks)
	}
	kinds := map[int64]*memoryKind{}
	for _, b := range blocks {
		page, err := pageOf(b.Type)
		if err != nil {
			return nil, nil, err
		}
		if kinds[page] == nil {
			kinds[page] = &memoryKind{}
		}
		if err := kinds[page].add(b); err != nil {
			return nil, nil, err
		}
	}
	for _, page := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[page]
		slices.Sort(k.nodes)
		if len(memory) > 0 && !slices.Equal(k.nodes, nodes) {
			return nil, nil, errors.New("its kinds of memory are in different NUMA nodes")
		}
		nodes = k.nodes
		memory = append(memory, &journaletv1.HugePages{PageBytes: page, Bytes: int64(k.bytes)})
	}
	return nodes, memory, nil
}

// memoryKind is what a container has of one kind of memory.
type memoryKind struct {
	nodes []uint32
	bytes uint64
}

func (k *memoryKind) add(b memoryBlock) error {
	at, err := nodesOf(b.NUMAAffinity)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(at, func(n uint32) bool { return slices.Contains(k.nodes, n) }) {
		return errors.New("one kind of memory twice")
	}
	if b.Size > math.MaxInt64-k.bytes {
		return fmt.Errorf("%d bytes of memory", b.Size)
	}
	k.nodes, k.bytes = append(k.nodes, at...), k.bytes+b.Size
	return nil
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
