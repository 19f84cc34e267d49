package topology

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// tree writes files below a new root. A name may hold several, separated by blanks.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for names, text := range files {
		for name := range strings.FieldsSeq(names) {
			path := filepath.Join(root, name)
			must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must.OK(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		}
	}
	return root
}

// twoNodes are two NUMA nodes in one socket, each with two cores of two threads. The CPUs of one share a cache, those
// of a core of the other do. CPU 7 is offline.
func twoNodes() map[string]string {
	const node1 = "sys/devices/system/node/node1/"
	files := map[string]string{
		"sys/devices/system/cpu/online":                   "0-6",
		"sys/devices/system/node/node0/cpulist":           "0-1,4-5",
		"sys/devices/system/node/node1/cpulist":           "2-3,6-7",
		"sys/devices/system/node/node0/meminfo":           "Node 0 MemTotal:  1024 kB\nNode 0 MemFree: 1 kB",
		"sys/devices/system/node/node1/meminfo":           "Node 1 MemTotal:  2048 kB",
		"sys/devices/system/node/node0/distance":          "10 21",
		"sys/devices/system/node/node1/distance":          "21 10",
		node1 + "hugepages/hugepages-2048kB/nr_hugepages": "3",
		"sys/devices/system/node/has_cpu":                 "0-1",
	}
	for cpu := range 7 {
		dir := "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/"
		files[dir+"topology/core_id"] = strconv.Itoa(cpu % 4)
		files[dir+"topology/physical_package_id"] = "0"
		files[dir+"cache/index2/level"], files[dir+"cache/index3/level"] = "2", "3"
		if cpu%4 < 2 {
			files[dir+"cache/index3/shared_cpu_list"], files[dir+"cache/index3/id"] = "0-1,4-5", "9"
		} else {
			files[dir+"cache/index3/shared_cpu_list"] = map[int]string{2: "2,6", 3: "3"}[cpu%4]
		}
	}
	return files
}

func TestTopologyIsReadFromTheKernelsFiles(t *testing.T) {
	got, err := Read(tree(t, twoNodes()))
	must.OK(t, err)
	want := &journaletv1.NodeTopology{
		Cores: []*journaletv1.CpuCore{
			{Cpus: []uint32{0, 4}}, {Cpus: []uint32{1, 5}}, // all CPUs of the node share the cache
			{NumaNode: 1, Cache: 2, Cpus: []uint32{2, 6}}, {NumaNode: 1, Cache: 3, Cpus: []uint32{3}},
		},
		Nodes: []*journaletv1.NumaNode{
			{MemoryBytes: 1 << 20, Distances: []uint32{10, 21}},
			{Id: 1, MemoryBytes: 2 << 20, Distances: []uint32{21, 10},
				HugePages: []*journaletv1.HugePages{{PageBytes: 2 << 20, Bytes: 6 << 20}}},
		},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestMachineWithoutNUMANodesHasOne(t *testing.T) {
	files := map[string]string{
		"sys/devices/system/cpu/online": "0-1", "proc/meminfo": "MemTotal: 4 kB", "sys/devices/system/node/has_cpu": "",
	}
	for _, cpu := range []string{"0", "1"} {
		files["sys/devices/system/cpu/cpu"+cpu+"/topology/core_id"] = cpu
		files["sys/devices/system/cpu/cpu"+cpu+"/topology/physical_package_id"] = "-1"
	}
	got, err := Read(tree(t, files))
	must.OK(t, err)
	if len(got.GetNodes()) != 1 || got.GetNodes()[0].GetMemoryBytes() != 4096 || len(got.GetCores()) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestTopologyOfThisMachineIsRead(t *testing.T) {
	got, err := Read("/")
	must.OK(t, err)
	if len(got.GetCores()) == 0 || len(got.GetNodes()) == 0 || got.GetNodes()[0].GetMemoryBytes() == 0 {
		t.Errorf("got %v", got)
	}
}

func TestDamagedFilesAreRefusedByName(t *testing.T) {
	for name, damage := range map[string]struct{ file, text, want string }{
		"list":      {"sys/devices/system/cpu/online", "0-x", "want a list of CPUs"},
		"bomb":      {"sys/devices/system/cpu/online", "0-4000000000", "want a list of CPUs"},
		"many":      {"sys/devices/system/node/node0/cpulist", strings.Repeat("0-60000,", 5000) + "1", "want a list of CPUs"},
		"core":      {"sys/devices/system/cpu/cpu0/topology/core_id", "first", "core of CPU 0"},
		"memory":    {"sys/devices/system/node/node1/meminfo", "MemTotal: lots", "no MemTotal"},
		"elsewhere": {"sys/devices/system/cpu/online", "0-6,9", "9 are online and in no NUMA node"},
		"long":      {"sys/devices/system/node/node0/meminfo", strings.Repeat("x", maxFile+1), "NUMA node 0"},
	} {
		files := twoNodes()
		files[damage.file] = damage.text
		if _, err := Read(tree(t, files)); err == nil || !strings.Contains(err.Error(), damage.want) {
			t.Errorf("%s: %v, want %q", name, err, damage.want)
		}
	}
}
