package kubeletstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

// Given is what an agent has given to the pods of its node.
type Given struct {
	// Managers are the policies, the machine and what is reserved of it.
	Managers *journaletv1.ResourceManagers
	// Pods are the pods that have exclusive CPUs, memory or devices, by UID. Their devices have the plugins' answers.
	Pods map[string]*journaletv1.KubeletPod
	// Devices are what plugins offer, by resource.
	Devices map[string]*journaletv1.DeviceResource
	// Allocated are the resources that are allocated to the pods of the API server, Actuated the resources that their
	// containers were last given, by UID.
	Allocated, Actuated map[string]PodResources
	// Claims are the pods' ResourceClaims, by UID of the pod.
	Claims map[string][]*journaletv1.PodClaim
	// Pulled are the images that were pulled, by the runtime's id, Pulling the images whose pull has begun.
	Pulled  map[string]*journaletv1.PulledImage
	Pulling []string
}

// Files returns the paths of the files below a root directory, and of the directory with the records of image pulls.
func Files(dir string) []string {
	var paths []string
	for _, f := range files {
		paths = append(paths, filepath.Join(dir, f.name))
	}
	for _, name := range []string{AllocatedFile, ActuatedFile, ClaimFile, PulledDir} {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// Write replaces the state files in the root directory of a kubelet that does not run, each at once, in the form of
// Kubernetes 1.37, which has the form before it inside. It returns, by UID, why a kubelet could not start a container
// of a pod again as it runs now. Where a kubelet would refuse the files, Write returns an error and changes no file. It
// may be repeated.
func Write(dir string, given Given) (lacking map[string]string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	cpus, err := given.cpus()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", CPUFile, err)
	}
	memory, err := given.memory()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", MemoryFile, err)
	}
	devices, lacking, err := given.devices(answersIn(root))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", DeviceFile, err)
	}
	allocated, err := resourcesData(given.Allocated)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", AllocatedFile, err)
	}
	actuated, err := resourcesData(given.Actuated)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ActuatedFile, err)
	}
	claims, err := given.claims()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ClaimFile, err)
	}
	pulls, err := given.pulls()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", PulledDir, err)
	}
	if err := root.Mkdir(filepath.Dir(DeviceFile), 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{CPUFile, cpus}, {MemoryFile, memory}, {DeviceFile, devices}, {AllocatedFile, allocated}, {ActuatedFile, actuated},
		{ClaimFile, claims},
	} {
		if err := durable.WriteIn(root, f.name, f.data); err != nil {
			return nil, fmt.Errorf("write the kubelet's state file: %w", err)
		}
	}
	if err := writePulls(root, pulls); err != nil {
		return nil, fmt.Errorf("write the kubelet's records of image pulls: %w", err)
	}
	return lacking, nil
}

// answersIn returns the answers of plugins in the device manager's file. A file that is damaged has none.
func answersIn(root *os.Root) []podDevicesEntry {
	data, err := bounded.ReadFileIn(root, DeviceFile, maxFileBytes)
	if err != nil {
		return nil
	}
	entries, err := deviceEntries(data)
	if err != nil {
		return nil
	}
	return entries
}

// cpuManagerData is the content of the CPU manager's file since Kubernetes 1.37.
type cpuManagerData struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
}

// cpus returns the CPU manager's file. With the static policy, each CPU of the machine is in it: with a container, or
// in the set that all other containers share.
func (g *Given) cpus() ([]byte, error) {
	file := cpuManagerCheckpoint{PolicyName: "none", Entries: map[string]map[string]string{}}
	if g.Managers.GetStaticCpus() {
		file.PolicyName = "static"
		var taken []exclusive.Pod
		for uid, p := range g.Pods {
			taken = append(taken, p.GetExclusive())
			for _, c := range p.GetExclusive() {
				if c.GetCpus() != "" {
					put(file.Entries, uid, c.GetContainer(), c.GetCpus())
				}
			}
		}
		shared := exclusive.NewSettings(g.Managers).Left(taken)
		if shared.IsEmpty() {
			return nil, errors.New("all CPUs are exclusive, and a kubelet that restarts wants one that is shared: " +
				"delete one of these pods")
		}
		file.DefaultCPUSet = shared.String()
	}
	file.Checksum = sumOf(&file)
	seal, err := sealOf(cpuManagerData{file.PolicyName, file.DefaultCPUSet, file.Entries})
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct { // kubelets before 1.37 read the first
		cpuManagerCheckpoint
		sealed
	}{file, seal})
}

// put sets what a container has, by UID and name.
func put[T any](entries map[string]map[string]T, uid, container string, has T) {
	if entries[uid] == nil {
		entries[uid] = map[string]T{}
	}
	entries[uid][container] = has
}

// sealOf returns the content of a manager's file as a text with its sum.
func sealOf(content any) (sealed, error) {
	data, err := json.Marshal(content)
	return sealed{string(data), sumOf(string(data))}, err
}

// uids returns the pods' UIDs, sorted.
func (g *Given) uids() []string { return slices.Sorted(maps.Keys(g.Pods)) }
