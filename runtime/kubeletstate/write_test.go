package kubeletstate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// ofRecorded returns what the recorded files say, on a machine with eight CPUs and two NUMA nodes.
func ofRecorded(dir string) Given {
	g := Given{Pods: Read(dir).GetPods(), Managers: &journaletv1.ResourceManagers{
		StaticCpus: true, StaticMemory: true, Topology: &journaletv1.NodeTopology{},
	}}
	for i := range uint32(8) {
		g.Managers.Topology.Cores = append(g.Managers.Topology.Cores,
			&journaletv1.CpuCore{NumaNode: i / 4, Cpus: []uint32{i}})
	}
	for i := range uint32(2) {
		g.Managers.Topology.Nodes = append(g.Managers.Topology.Nodes, &journaletv1.NumaNode{
			Id: i, MemoryBytes: 8 << 30, HugePages: []*journaletv1.HugePages{{PageBytes: 2 << 20, Bytes: 1 << 30}},
		})
	}
	return g
}

// What is written is read again, also after it was written twice, and each container keeps the answer of its plugin
// that the kubelet had recorded. test/oracle starts the kubelet's own managers with such files.
func TestWrittenFilesAreRead(t *testing.T) {
	for _, version := range versions {
		dir := root(t, version)
		want := Read(dir)
		for range 2 {
			lacking, err := Write(dir, ofRecorded(dir))
			must.OK(t, err)
			if got := Read(dir); !proto.Equal(got, want) {
				t.Errorf("%s: got %s, %q; want %s", version, summary(got), got.GetProblems(), summary(want))
			}

			if len(lacking) != 0 {
				t.Errorf("%s: %q", version, lacking)
			}
		}
		data, err := os.ReadFile(filepath.Join(dir, DeviceFile))
		must.OK(t, err)
		entries, err := deviceEntries(data)
		if err != nil || len(entries) != 2 || string(entries[0].AllocResp)+string(entries[1].AllocResp) != "answer" {
			t.Errorf("%s: %v, %v", version, entries, err)
		}
	}
}

// A kubelet computes the groups of NUMA nodes again when it starts, from containers in any order.
func TestMemoryOfANodeInSeveralGroupsIsWrittenByNode(t *testing.T) {
	dir := t.TempDir()
	given := func(gib int64, nodes ...uint32) *journaletv1.KubeletPod {
		return &journaletv1.KubeletPod{Exclusive: []*journaletv1.ExclusiveContainer{{
			Container: "c", MemoryNodes: nodes, Memory: []*journaletv1.HugePages{{Bytes: gib << 30}},
		}}}
	}
	g := ofRecorded(dir)
	must.OK(t, os.MkdirAll(filepath.Join(dir, "pods", "uid-1"), 0o700))
	blocks := func(uid string) string {
		_, err := Write(dir, g)
		must.OK(t, err)
		data, err := os.ReadFile(filepath.Join(dir, MemoryFile))
		must.OK(t, err)
		file := &memoryManagerCheckpoint{}
		must.OK(t, json.Unmarshal(data, file))
		if got := Read(dir); !proto.Equal(got.GetPods()[uid], g.Pods[uid]) || len(got.GetProblems()) > 0 {
			t.Errorf("%s is read as %s, %q", uid, summary(got), got.GetProblems())
		}
		text := ""
		for _, b := range file.Entries[uid]["c"] {
			text += fmt.Sprint(b.NUMAAffinity, b.Size>>30, " ")
		}
		return text + fmt.Sprint(file.MachineState[0].Cells, file.MachineState[1].Cells)
	}
	g.Pods = map[string]*journaletv1.KubeletPod{"uid-1": given(9, 0, 1)}
	if got := blocks("uid-1"); got != "[0 1] 9 [0 1] [0 1]" {
		t.Errorf("one group is written as %s", got)
	}
	g.Pods["uid-2"] = given(2, 0)
	if got := blocks("uid-1"); got != "[0] 5 [1] 4 [0] [1]" {
		t.Errorf("two groups are written as %s", got)
	}
}

func TestContainerWithoutItsPluginsAnswerIsNamed(t *testing.T) {
	dir := t.TempDir()
	g := Given{Pods: map[string]*journaletv1.KubeletPod{"uid-1": {Devices: []*journaletv1.ContainerDevices{
		{Container: "main", Resource: "example.com/gpu", Ids: []string{"gpu-0"}},
	}}}}
	lacking, err := Write(dir, g)
	must.OK(t, err)
	if !strings.Contains(lacking["uid-1"], "container main") || !strings.Contains(lacking["uid-1"], "example.com/gpu") {
		t.Errorf("got %q", lacking)
	}
	g.Pods["uid-1"].Devices[0].Answer = new(journaletv1.DeviceAnswer)
	if lacking, err = Write(dir, g); err != nil || len(lacking) != 0 {
		t.Errorf("with an answer that wants nothing: %q, %v", lacking, err)
	}
}

// A kubelet refuses such files, and would not start.
func TestFilesThatAKubeletRefusesAreNotWritten(t *testing.T) {
	for says, change := range map[string]func(*Given){
		"one that is shared": func(g *Given) { g.Pods[web].Exclusive[0].Cpus = "0-7" },
		"NUMA node 5":        func(g *Given) { g.Pods[web].Exclusive[0].MemoryNodes = []uint32{5} },
	} {
		dir := root(t, "v1.37")
		before := Read(dir)
		g := ofRecorded(dir)
		change(&g)
		if _, err := Write(dir, g); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
		if !proto.Equal(Read(dir), before) {
			t.Error("a file was changed")
		}
	}
}
