package kubeletstate

import (
	"fmt"
	"maps"
	"slices"
)

// sealed is what a manager's file has since Kubernetes 1.37: its content once more, as a text with a sum of its own.
type sealed struct {
	Data         string   `json:"data"`
	DataChecksum checksum `json:"dataChecksum"`
}

// open decodes the file of the CPU manager or of the memory manager, and checks its sum, which is a field of the file
// before Kubernetes 1.37.
func open(data []byte, file any, sum *checksum) error {
	var seal sealed
	if err := decode(data, &seal); err != nil {
		return err
	}
	if seal != (sealed{}) {
		if err := verify(seal.Data, seal.DataChecksum); err != nil {
			return err
		}
		return decode([]byte(seal.Data), file)
	}
	if err := decode(data, file); err != nil {
		return err
	}
	want := *sum
	if want == 0 { // the kubelet accepts a file without one
		return nil
	}
	*sum = 0
	return verify(file, want)
}

// containers calls read for the exclusive resources of each container, by UID and name, of the pods that have a
// directory.
func containers[T any](s *state, file, what string, entries map[string]map[string]T,
	read func(uid, name string, has T) error) {
	for _, uid := range slices.Sorted(maps.Keys(entries)) {
		if !s.has(uid) {
			continue
		}
		if n := len(entries[uid]); n > maxContainers {
			s.problem("%s: pod %s has %d containers with %s, and at most %d are read", file, uid, n, what, maxContainers)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(entries[uid])) {
			err := nameable("container", name)
			if err == nil {
				if err = read(uid, name, entries[uid][name]); err != nil {
					err = fmt.Errorf("container %s: %w", name, err)
				}
			}
			if err != nil {
				s.problem("%s: pod %s: %v", file, uid, err)
			}
		}
	}
}
