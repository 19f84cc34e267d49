package kubelet

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
)

// MemoryMoved reports whether memory is counted for other NUMA nodes than if only the pods had been admitted that are
// still there. Memory of several nodes is taken from the lowest that has some; given back, it is counted for the lowest
// that lacks some, wherever it was taken.
func (m *Managers) MemoryMoved() (bool, error) {
	data, err := os.ReadFile(filepath.Join(m.dir, "memory_manager_state"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the policy None keeps none
	}
	if err != nil {
		return false, err
	}
	s := state.MemoryManagerCheckpointV1{}
	if err := json.Unmarshal(data, &s); err != nil {
		return false, err
	}
	left, group := m.taken(s)
	for id, node := range s.MachineState {
		if node.NumberOfAssignments > 0 && !slices.Equal(slices.Sorted(slices.Values(node.Cells)), group[id]) {
			return true, nil
		}
		for name, table := range node.MemoryMap {
			if table.Free != left[id][name] {
				return true, nil
			}
		}
	}
	return false, nil
}

// taken returns what each NUMA node has left, and the nodes that it was given out with, if what pods have is taken in
// the order of their admission.
func (m *Managers) taken(s state.MemoryManagerCheckpointV1) (left map[int]map[v1.ResourceName]uint64,
	group map[int][]int,
) {
	left, group = map[int]map[v1.ResourceName]uint64{}, map[int][]int{}
	for id, node := range s.MachineState {
		left[id] = map[v1.ResourceName]uint64{}
		for name, table := range node.MemoryMap {
			left[id][name] = table.Allocatable
		}
	}
	for _, pod := range m.active {
		blocks := s.Entries[string(pod.UID)]
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			for _, b := range blocks[c.Name] {
				size, nodes := b.Size, slices.Sorted(slices.Values(b.NUMAAffinity))
				for _, id := range nodes {
					from := min(size, left[id][b.Type])
					left[id][b.Type], size = left[id][b.Type]-from, size-from
					group[id] = nodes
				}
			}
		}
	}
	return left, group
}
