package oracle

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/kubeletstate"
)

var recordState = flag.Bool("oracle.record-state", false, "record the kubelet's state files in runtime/kubeletstate")

// recordedState is where the files are kept for the tests of the package that reads them.
const recordedState = "../../runtime/kubeletstate/testdata"

// The pods of the state files: all but gone have a directory.
const (
	webUID  = "0b5a1f3e-3c5f-4d7a-9f0e-5a2f6f1f0001"
	jobUID  = "0b5a1f3e-3c5f-4d7a-9f0e-5a2f6f1f0002"
	goneUID = "0b5a1f3e-3c5f-4d7a-9f0e-5a2f6f1f0003"
)

// TestStateFilesOfTheKubeletAreRead writes the state files by the kubelet's own code, in their form of today and in
// that before Kubernetes 1.37, and reads them.
func TestStateFilesOfTheKubeletAreRead(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, dir string){"v1.37": writeState, "v1.36": writeOldState} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, d := range []string{"device-plugins", "pods/" + webUID, "pods/" + jobUID} {
				must(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
			}
			write(t, dir)
			writeDevices(t, filepath.Join(dir, "device-plugins"))
			want := &journaletv1.KubeletState{Pods: map[string]*journaletv1.KubeletPod{
				webUID: {
					Exclusive: []*journaletv1.ExclusiveContainer{
						{Container: "init", Cpus: "2-3", MemoryNodes: []uint32{0}, Memory: []*journaletv1.HugePages{{}}},
						{
							Container: "main", Cpus: "2-3,6", MemoryNodes: []uint32{0, 1},
							Memory: []*journaletv1.HugePages{{Bytes: 3 << 30}, {PageBytes: 2 << 20, Bytes: 64 << 20}},
						},
					},
					Devices: []*journaletv1.ContainerDevices{
						{Container: "main", Resource: "example.com/gpu", Ids: []string{"gpu-0", "gpu-1", "gpu-7"}},
						{Container: "main", Resource: "example.com/nic", Ids: []string{"nic \"0\""}},
					},
				},
				jobUID: {Exclusive: []*journaletv1.ExclusiveContainer{{Container: "main", Cpus: "7"}}},
			}}
			if got := kubeletstate.Read(dir); !proto.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", protojson.Format(got), protojson.Format(want))
			}
			compareRecorded(t, dir, filepath.Join(recordedState, name))
		})
	}
}

func writeState(t *testing.T, dir string) {
	cpus, err := cpustate.NewCheckpointState(klog.Background(), dir, kubeletstate.CPUFile, "static", nil)
	must(t, err)
	cpus.SetDefaultCPUSet(cpuset.New(0, 1, 4))
	cpus.SetCPUSet(webUID, "init", cpuset.New(2, 3))
	cpus.SetCPUSet(webUID, "main", cpuset.New(2, 3, 6))
	cpus.SetCPUSet(jobUID, "main", cpuset.New(7))
	cpus.SetCPUSet(goneUID, "main", cpuset.New(5))
	memory, err := memorystate.NewCheckpointState(klog.Background(), dir, kubeletstate.MemoryFile, "Static")
	must(t, err)
	memory.SetMachineState(machineState())
	for uid, containers := range memoryEntries() {
		for name, blocks := range containers {
			memory.SetMemoryBlocks(uid, name, blocks)
		}
	}
}

// writeOldState writes what a kubelet before 1.37 wrote: today's code keeps that form for a way back.
func writeOldState(t *testing.T, dir string) {
	manager, err := checkpointmanager.NewCheckpointManager(dir)
	must(t, err)
	must(t, manager.CreateCheckpoint(kubeletstate.CPUFile, &cpustate.CPUManagerCheckpointV2{
		PolicyName: "static", DefaultCPUSet: "0-1,4", Entries: map[string]map[string]string{
			webUID: {"init": "2-3", "main": "2-3,6"}, jobUID: {"main": "7"}, goneUID: {"main": "5"},
		},
	}))
	must(t, manager.CreateCheckpoint(kubeletstate.MemoryFile, &memorystate.MemoryManagerCheckpointV1{
		PolicyName: "Static", MachineState: machineState(), Entries: memoryEntries(),
	}))
}

func machineState() memorystate.NUMANodeMap {
	node := func() *memorystate.NUMANodeState {
		return &memorystate.NUMANodeState{NumberOfAssignments: 2, Cells: []int{0, 1},
			MemoryMap: map[corev1.ResourceName]*memorystate.MemoryTable{
				corev1.ResourceMemory: {TotalMemSize: 8 << 30, SystemReserved: 1 << 30, Allocatable: 7 << 30, Reserved: 2 << 30,
					Free: 5 << 30},
				"hugepages-2Mi": {TotalMemSize: 1 << 30, Allocatable: 1 << 30, Reserved: 64 << 20, Free: 960 << 20},
			}}
	}
	return memorystate.NUMANodeMap{0: node(), 1: node()}
}

func memoryEntries() memorystate.ContainerMemoryAssignments {
	return memorystate.ContainerMemoryAssignments{
		webUID: {
			"init": {{NUMAAffinity: []int{0}, Type: corev1.ResourceMemory}},
			"main": {
				{NUMAAffinity: []int{0, 1}, Type: "hugepages-2Mi", Size: 64 << 20},
				{NUMAAffinity: []int{0, 1}, Type: corev1.ResourceMemory, Size: 3 << 30},
			},
		},
		goneUID: {"main": {{NUMAAffinity: []int{1}, Type: corev1.ResourceMemory, Size: 1 << 30}}},
	}
}

func writeDevices(t *testing.T, dir string) {
	manager, err := checkpointmanager.NewCheckpointManager(dir)
	must(t, err)
	must(t, manager.CreateCheckpoint(filepath.Base(kubeletstate.DeviceFile), checkpoint.New([]checkpoint.PodDevicesEntry{
		{
			PodUID: webUID, ContainerName: "main", ResourceName: "example.com/nic",
			DeviceIDs: checkpoint.DevicesPerNUMA{-1: {"nic \"0\""}},
		},
		{
			PodUID: webUID, ContainerName: "main", ResourceName: "example.com/gpu", AllocResp: []byte("answer"),
			DeviceIDs: checkpoint.DevicesPerNUMA{1: {"gpu-7", "gpu-1"}, 0: {"gpu-1", "gpu-0"}},
		},
		{
			PodUID: goneUID, ContainerName: "main", ResourceName: "example.com/gpu",
			DeviceIDs: checkpoint.DevicesPerNUMA{0: {"gpu-3"}},
		},
	}, map[string][]string{"example.com/gpu": {"gpu-0", "gpu-1", "gpu-3", "gpu-7"}, "example.com/nic": {"nic \"0\""}})))
}

// compareRecorded holds the files of a directory to the recorded ones.
func compareRecorded(t *testing.T, dir, recorded string) {
	for _, name := range []string{kubeletstate.CPUFile, kubeletstate.MemoryFile, kubeletstate.DeviceFile} {
		wrote, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		path := filepath.Join(recorded, strings.ReplaceAll(name, "/", "_"))
		if *recordState {
			must(t, os.MkdirAll(recorded, 0o755))
			must(t, os.WriteFile(path, wrote, 0o644))
		}
		kept, err := os.ReadFile(path)
		if err != nil || string(kept) != string(wrote) {
			t.Errorf("%s is not what the kubelet writes: run go test -run %s . -oracle.record-state (%v)", path, t.Name(), err)
		}
	}
}
