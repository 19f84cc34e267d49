package config

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func memoryOf(node int32, name corev1.ResourceName, text string) kubeletconfig.MemoryReservation {
	return kubeletconfig.MemoryReservation{NumaNode: node, Limits: corev1.ResourceList{name: resource.MustParse(text)}}
}

func TestSettingsThatTheKubeletRefusesAreRefused(t *testing.T) {
	static := func(options ...string) Managers {
		m := Managers{CPUPolicy: "static", CPUOptions: map[string]string{}}
		for i := 0; i < len(options); i += 2 {
			m.CPUOptions[options[i]] = options[i+1]
		}
		return m
	}
	single := static("align-by-socket", "true")
	single.TopologyPolicy = "single-numa-node"
	aligned := func(option, value string) Managers {
		return Managers{TopologyOptions: map[string]string{option: value}}
	}
	reserved := func(list ...kubeletconfig.MemoryReservation) Managers { return Managers{ReservedMemory: list} }
	for want, m := range map[string]Managers{
		"cpuManagerPolicy (--cpu-manager-policy): found":           {CPUPolicy: "dynamic"},
		"memoryManagerPolicy (--memory-manager-policy): found":     {MemoryPolicy: "static"},
		"topologyManagerPolicy (--topology-manager-policy): found": {TopologyPolicy: "strict"},
		"topologyManagerScope (--topology-manager-scope): found":   {TopologyScope: "node"},
		"the policy none has no options":                           {CPUOptions: static("full-pcpus-only", "1").CPUOptions},
		"there is no option \"half\"":                              static("half", "true"),
		"full-pcpus-only: found \"yes\"":                           static("full-pcpus-only", "yes"),
		"distribute-cpus-across-numa and distribute-cpus-across-cores cannot": static(
			"distribute-cpus-across-numa", "true", "distribute-cpus-across-cores", "true"),
		"align-by-socket is incompatible":        single,
		"max-allowable-numa-nodes: found \"7\"":  aligned("max-allowable-numa-nodes", "7"),
		"there is no option \"nearest\"":         aligned("nearest", "true"),
		"the limit type \"cpu\" for NUMA node 0": reserved(memoryOf(0, "cpu", "1")),
		"may not be zero for NUMA node 1":        reserved(memoryOf(1, "memory", "0")),
		"duplicate value for NUMA node 0":        reserved(memoryOf(0, "memory", "1Gi"), memoryOf(0, "memory", "2Gi")),
	} {
		c := Defaults()
		c.Managers = m
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
	c := Defaults()
	c.Managers = Managers{CPUPolicy: "none", MemoryPolicy: "None", TopologyPolicy: "none", TopologyScope: "pod",
		TopologyOptions: map[string]string{"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "9"}}
}

// smallMachine has two CPUs, a core each, without NUMA nodes.
func smallMachine(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/devices/system/cpu/online": "0-1", "proc/meminfo": "MemTotal: 4194304 kB",
		"sys/devices/system/cpu/cpu0/topology/core_id": "0", "sys/devices/system/cpu/cpu1/topology/core_id": "1",
		"sys/devices/system/cpu/cpu0/topology/physical_package_id": "0",
		"sys/devices/system/cpu/cpu1/topology/physical_package_id": "0",
	} {
		must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		must.OK(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func TestPoliciesNeedWhatTheyReserve(t *testing.T) {
	root, gib := smallMachine(t), int64(1)<<30
	has := Capacity{MilliCPU: 2000, MemoryBytes: 4 * gib}
	memory := func(list ...kubeletconfig.MemoryReservation) func(*Managers) {
		return func(m *Managers) { m.MemoryPolicy, m.ReservedMemory = "Static", list }
	}
	less := Capacity{MilliCPU: 1000, MemoryBytes: 3 * gib}
	for name, one := range map[string]struct {
		left   Capacity
		cpus   string
		change func(*Managers)
		want   string // "": accepted
	}{
		"no CPU is reserved": {left: has, want: "requires that some CPU is reserved"},
		"a part of a CPU":    {left: Capacity{MilliCPU: 1900, MemoryBytes: 4 * gib}},
		"a list":             {left: has, cpus: "1"},
		"no memory reserved": {left: less, change: memory(),
			want: `"0" of type "memory" is not equal to the value "1Gi"`},
		"memory is reserved": {left: less, change: memory(memoryOf(0, "memory", "1Gi"))},
		"of another NUMA node": {left: less, change: memory(memoryOf(1, "memory", "1Gi")),
			want: "NUMA node 1 that does not exist"},
		"huge pages": {left: less, change: memory(memoryOf(0, "memory", "1Gi"), memoryOf(0, "hugepages-2Mi", "2Mi")),
			want: "hugepages-2Mi are reserved"},
		"nothing at all": {left: Capacity{MilliCPU: 1000, MemoryBytes: 4 * gib}, change: memory(),
			want: "requires reserved memory"},
	} {
		c := Defaults()
		c.Managers.CPUPolicy, c.ReservedSystemCPUs = "static", one.cpus
		if one.change != nil {
			one.change(&c.Managers)
		}
		got, err := c.managers(root, has, one.left)
		switch {
		case one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)):
			t.Errorf("%s: %v, want %q", name, err, one.want)
		case one.want == "" && (err != nil || got.GetReservedCpus() != cmp.Or(one.cpus, "0")):
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := Defaults().managers(filepath.Join(root, "missing"), has, has); got != nil || err != nil {
		t.Errorf("by default the machine is read, or something recorded: %v, %v", got, err)
	}
}

func TestFlagsOfTheManagersSetTheirFields(t *testing.T) {
	c, problems := mustLoad(t,
		"--cpu-manager-policy=static", "--cpu-manager-policy-options=full-pcpus-only=true",
		"--memory-manager-policy=Static", "--reserved-memory=0:memory=1Gi;1:memory=2Gi", "--reserved-cpus=0",
		"--topology-manager-policy=restricted", "--topology-manager-scope=pod",
		"--topology-manager-policy-options=prefer-closest-numa-nodes=true")
	m := c.Managers
	if len(problems) > 0 || m.CPUPolicy != cpuStatic || m.CPUOptions["full-pcpus-only"] != "true" ||
		m.MemoryPolicy != memoryStatic || len(m.ReservedMemory) != 2 || m.TopologyScope != scopePod ||
		topologyPolicies[m.TopologyPolicy] != journaletv1.TopologyPolicy_TOPOLOGY_POLICY_RESTRICTED {
		t.Errorf("%+v, problems %v", m, problems)
	}
	if closest, err := m.closest(); !closest || err != nil {
		t.Errorf("closest: %t, %v", closest, err)
	}
}
