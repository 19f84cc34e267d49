package kubeletstate

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/actors/exclusive"
)

// cpuManagerCheckpoint is the CPU manager's file before Kubernetes 1.37. Its fields, with their types and their order,
// count for its sum.
type cpuManagerCheckpoint struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      checksum                     `json:"checksum"`
}

// sealed is what a file has since Kubernetes 1.37: its content once more, as a text with a sum of its own.
type sealed struct {
	Data         string   `json:"data"`
	DataChecksum checksum `json:"dataChecksum"`
}

// open decodes the text of a file that has one; false if it has none.
func (s sealed) open(into any) (bool, error) {
	if s.Data == "" && s.DataChecksum == 0 {
		return false, nil
	}
	if err := verify(s.Data, s.DataChecksum); err != nil {
		return true, err
	}
	return true, decode([]byte(s.Data), into)
}

// cpus reads the CPUs that containers have alone: by UID and container, a list such as 2-3,6.
func (s *state) cpus(data []byte) error {
	var seal sealed
	if err := decode(data, &seal); err != nil {
		return err
	}
	file := &cpuManagerCheckpoint{Entries: map[string]map[string]string{}}
	is, err := seal.open(file)
	if err != nil {
		return err
	}
	if !is {
		if err := decode(data, file); err != nil {
			return err
		}
		if want := file.Checksum; want != 0 { // the kubelet accepts a file without one
			file.Checksum = 0
			if err := verify(file, want); err != nil {
				return err
			}
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(file.Entries)) {
		if !s.has(uid) {
			continue
		}
		if n := len(file.Entries[uid]); n > maxContainers {
			s.problem("%s: pod %s has %d containers with CPUs, and at most %d are read", CPUFile, uid, n, maxContainers)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(file.Entries[uid])) {
			list := file.Entries[uid][name]
			cpus := exclusive.Parse(list)
			if err := nameable("container", name); err != nil {
				s.problem("%s: pod %s: %v", CPUFile, uid, err)
			} else if cpus.IsEmpty() && list != "" {
				s.problem("%s: pod %s: container %s: %q is no list of CPUs", CPUFile, uid, name, list)
			} else if list != "" {
				s.container(uid, name).Cpus = cpus.String()
			}
		}
	}
	return nil
}
