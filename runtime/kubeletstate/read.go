package kubeletstate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
)

// The files, below the root directory.
const (
	CPUFile    = "cpu_manager_state"
	MemoryFile = "memory_manager_state"
	DeviceFile = "device-plugins/kubelet_internal_checkpoint"
)

// Bounds. A kubelet has none.
const (
	// maxFileBytes bounds a file. 500 pods with two containers each have 300 KB of CPUs, and 2 MB of answers of device
	// plugins.
	maxFileBytes = 4 << 20
	// maxValues bounds the JSON values of a file, by the characters that begin a value or come before it: an empty one
	// costs 500 bytes while the checksum is computed. 16,384 devices have as many values, each container about ten.
	maxValues = 1 << 18
	// maxStateBytes bounds what is recorded, with the agent's configuration in one record of 1 MiB.
	maxStateBytes = 256 << 10
	// maxContainers bounds the containers of a pod, and its devices' resources: as many as a pod may have containers.
	maxContainers = 80
	// maxNameBytes bounds names of containers, names of resources, and ids of devices. Kubernetes: 63, and 128 for an id
	// (runtime/plugins/devices).
	maxNameBytes = 253
	// maxDevices bounds the devices of one container and resource: as many as a plugin may have.
	maxDevices = 4096
	// maxProblems bounds the problems that are recorded, maxProblemBytes one of them.
	maxProblems, maxProblemBytes = 16, 512
)

// files are the files, in reading order. remedy is what follows if a file does not count, and what to do.
var files = []struct {
	name   string
	read   func(*state, []byte) error
	remedy string
}{
	{CPUFile, (*state).cpus, "nothing is to be done: pods are placed again, and their containers move to other CPUs"},
	{MemoryFile, (*state).memory, "pods are placed again; restart those whose memory is to be in one NUMA node"},
	{DeviceFile, (*state).devices, "it is not known which devices running containers have, and others may get the same: " +
		"restart the pods that have any"},
}

// state is what is read so far.
type state struct {
	root  *os.Root
	found bool // a file is there
	out   *journaletv1.KubeletState
	more  int // problems beyond the bound
	// present caches which pods have a directory.
	present map[string]bool
}

// In reports whether a directory is or was a kubelet's root directory: every kubelet writes this file when it starts,
// and no agent removes it (ADR 090).
func In(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, CPUFile))
	return err == nil && info.Mode().IsRegular()
}

// Read returns what a kubelet had given to the pods that still have a directory below a root directory; nil if none of
// its files is there. What cannot be read is in its problems.
func Read(dir string) *journaletv1.KubeletState {
	s := &state{
		out: &journaletv1.KubeletState{Pods: map[string]*journaletv1.KubeletPod{}}, present: map[string]bool{},
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil // there is nothing yet
	}
	defer root.Close()
	s.root = root
	for _, f := range files {
		data, err := bounded.ReadFileIn(root, f.name, maxFileBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		s.found = true
		if err == nil {
			err = f.read(s, data)
		}
		if err != nil {
			s.problem("the kubelet's state file %s: %v; %s", filepath.Join(dir, f.name), reason(err), f.remedy)
		}
	}
	if !s.found {
		return nil
	}
	s.shrink(dir)
	s.images(dir) // last: a thousand damaged records hide no problem of a pod
	if s.more > 0 {
		s.out.Problems = append(s.out.Problems, fmt.Sprintf("and %d problems more", s.more))
	}
	return s.out
}

// reason returns an error without the path, which its message would have twice.
func reason(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// problem adds a problem.
func (s *state) problem(format string, args ...any) {
	if len(s.out.GetProblems()) == maxProblems {
		s.more++
		return
	}
	s.out.Problems = append(s.out.Problems, clean.Text(fmt.Sprintf(format, args...), maxProblemBytes))
}

// has reports whether a pod has a directory: one without has gone, and the kubelet has not cleared its files since.
func (s *state) has(uid string) bool {
	if messages.CheckID(uid) != nil {
		return false
	}
	is, known := s.present[uid]
	if !known {
		info, err := s.root.Lstat(filepath.Join("pods", uid))
		is = err == nil && info.IsDir()
		s.present[uid] = is
	}
	return is
}

// pod returns what is known of a pod.
func (s *state) pod(uid string) *journaletv1.KubeletPod {
	if s.out.Pods[uid] == nil {
		s.out.Pods[uid] = new(journaletv1.KubeletPod)
	}
	return s.out.Pods[uid]
}

// container returns the exclusive resources of a container of a pod.
func (s *state) container(uid, name string) *journaletv1.ExclusiveContainer {
	p := s.pod(uid)
	for _, c := range p.GetExclusive() {
		if c.GetContainer() == name {
			return c
		}
	}
	c := &journaletv1.ExclusiveContainer{Container: name}
	p.Exclusive = append(p.Exclusive, c)
	slices.SortFunc(p.Exclusive, func(x, y *journaletv1.ExclusiveContainer) int {
		return cmp.Compare(x.GetContainer(), y.GetContainer())
	})
	return c
}

// shrink leaves out the pods that are too many for the record, the last by UID.
func (s *state) shrink(dir string) {
	left, size := 0, 0
	for _, uid := range slices.Sorted(maps.Keys(s.out.Pods)) {
		size += len(uid) + 16 + proto.Size(s.out.Pods[uid])
		if size > maxStateBytes {
			delete(s.out.Pods, uid)
			left++
		}
	}
	if left > 0 {
		s.problem("the kubelet's state files in %s: more than %d bytes of what it had given to pods; %d pods are placed "+
			"again: restart those that have devices", dir, maxStateBytes, left)
	}
}

// nameable returns an error unless a name may be one of a container or a resource, or the id of a device.
func nameable(kind, name string) error {
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("a %s with a name of %d bytes: want 1 to %d", kind, len(name), maxNameBytes)
	}
	return nil
}

// decode decodes a file, or the text in one, that has neither too many bytes nor too many values.
func decode(data []byte, into any) error {
	values := 0
	for _, c := range data {
		if c == ',' || c == '{' || c == '[' {
			values++
		}
	}
	if values > maxValues {
		return fmt.Errorf("it has more than %d values", maxValues)
	}
	if err := bounded.JSON(data, maxFileBytes, into); err != nil {
		return fmt.Errorf("it is damaged: %w", err)
	}
	return nil
}
