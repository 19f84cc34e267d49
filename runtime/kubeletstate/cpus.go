package kubeletstate

import (
	"fmt"

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

// cpus reads the exclusive CPUs of containers: a list such as 2-3,6.
func (s *state) cpus(data []byte) error {
	file := &cpuManagerCheckpoint{Entries: map[string]map[string]string{}}
	if err := open(data, file, &file.Checksum); err != nil {
		return err
	}
	containers(s, CPUFile, "CPUs", file.Entries, func(uid, name, list string) error {
		cpus := exclusive.Parse(list)
		if cpus.IsEmpty() && list != "" {
			return fmt.Errorf("%q is no list of CPUs", list)
		}
		if list != "" {
			s.container(uid, name).Cpus = cpus.String()
		}
		return nil
	})
	return nil
}
