package exclusive

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
)

const gib = int64(1) << 30

// machine has two sockets, each a NUMA node of 8 GiB with 4 cores of 2 threads: CPUs 0-3 and 8-11, 4-7 and 12-15.
func machine() *journaletv1.NodeTopology {
	t := new(journaletv1.NodeTopology)
	for n := range uint32(2) {
		t.Nodes = append(t.Nodes, &journaletv1.NumaNode{Id: n, MemoryBytes: 8 * gib})
		for c := range uint32(4) {
			t.Cores = append(t.Cores, &journaletv1.CpuCore{
				NumaNode: n, Socket: n, Cache: 2*n + c/2, Cpus: []uint32{4*n + c, 8 + 4*n + c},
			})
		}
	}
	return t
}

func settings(change func(*journaletv1.ResourceManagers)) *Settings {
	m := &journaletv1.ResourceManagers{
		Topology: machine(), StaticCpus: true, ReservedCpus: "0,8", CpuOptions: new(journaletv1.CpuOptions),
	}
	if change != nil {
		change(m)
	}
	return NewSettings(m)
}

// wants are containers that request whole CPUs and GiB: "2/1 init" is an init container.
func wants(list ...string) *journaletv1.ExclusiveRequests {
	out := new(journaletv1.ExclusiveRequests)
	for i, text := range list {
		amounts, kind, _ := strings.Cut(text, " ")
		cpu, memory, _ := strings.Cut(amounts, "/")
		c, m := resource.MustParse(cpu), resource.MustParse(memory+"Gi")
		out.Containers = append(out.Containers, &journaletv1.ExclusiveRequest{
			Container: string(rune('a' + i)), MilliCpu: c.MilliValue(), Init: kind == "init", Sidecar: kind == "sidecar",
			Memory: []*journaletv1.HugePages{{Bytes: m.Value()}},
		})
	}
	return out
}

func admit(t *testing.T, s *Settings, taken []Pod, list ...string) Pod {
	t.Helper()
	p, r := s.Admit(wants(list...), taken, nil)
	if r != nil {
		t.Fatalf("refused: %+v", *r)
	}
	return p
}

func TestWholeCoresOfOneSocketComeFirst(t *testing.T) {
	s := settings(nil)
	first := admit(t, s, nil, "4/1", "500m/1")
	if got := first.Of("a").GetCpus(); got != "1-2,9-10" || len(first) != 1 {
		t.Errorf("the first got %s, %d containers have exclusive resources", got, len(first))
	}
	if got := s.Shared([]Pod{first}).String(); got != "0,3-8,11-15" {
		t.Errorf("%s are shared", got)
	}
	second := admit(t, s, []Pod{first}, "8/1")
	if got := second.CPUs().String(); got != "4-7,12-15" {
		t.Errorf("a whole socket's worth is %s", got)
	}
	if _, r := s.Admit(wants("3/1"), []Pod{first, second}, nil); r == nil || r.Reason != ReasonUnexpected ||
		!strings.Contains(r.Message, "not enough cpus available to satisfy request: requested=3, available=2") {
		t.Errorf("more than there is: %+v", r)
	}
}

func TestNoCPUIsInTwoSetsWhateverPodsComeAndGo(t *testing.T) {
	for _, o := range []*journaletv1.CpuOptions{
		{}, {FullCores: true}, {AcrossNuma: true}, {AcrossCores: true}, {ByCache: true}, {BySocket: true, AcrossNuma: true},
		{StrictReservation: true},
	} {
		s := settings(func(m *journaletv1.ResourceManagers) { m.CpuOptions = o })
		var taken []Pod
		for i := range 200 {
			if len(taken) > i%5 {
				taken = taken[1:]
			}
			p, r := s.Admit(wants([]string{"1/1", "2/1", "4/1", "6/1", "3/1"}[i*7%5]), taken, nil)
			if r != nil {
				continue
			}
			taken = append(taken, p)
			all, sum := cpuset.New(), 0
			for _, p := range taken {
				all, sum = all.Union(p.CPUs()), sum+p.CPUs().Size()
			}
			shared := s.Shared(taken)
			if all.Size() != sum || !all.Intersection(shared).IsEmpty() || shared.IsEmpty() ||
				all.Contains(0) || all.Contains(8) {
				t.Fatalf("%v, step %d: %v are exclusive, %s shared", o, i, taken, shared)
			}
		}
	}
}

func TestInitContainersLendTheirCPUsAndSidecarsKeepTheirs(t *testing.T) {
	p := admit(t, settings(nil), nil, "4/1 init", "2/1 sidecar", "2/1", "2/1")
	side := Parse(p.Of("b").GetCpus())
	rest := Parse(p.Of("c").GetCpus()).Union(Parse(p.Of("d").GetCpus()))
	if rest.Size() != 4 || !rest.Intersection(side).IsEmpty() || p.CPUs().Size() != 6 {
		t.Errorf("containers got %v", p)
	}
}

func TestWholeCoresOnlyRefusesParts(t *testing.T) {
	s := settings(func(m *journaletv1.ResourceManagers) { m.CpuOptions.FullCores, m.ReservedCpus = true, "0" })
	if _, r := s.Admit(wants("3/1"), nil, nil); r == nil || r.Reason != ReasonSMTAlignment ||
		r.Message != "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2" {
		t.Errorf("an odd number: %+v", r)
	}
	// CPU 8 is free, and its core is not.
	if _, r := s.Admit(wants("16/1"), nil, nil); r == nil || r.Reason != ReasonSMTAlignment ||
		!strings.Contains(r.Message, "available physical CPUs = 14, requested CPUs = 16") {
		t.Errorf("more than the whole cores: %+v", r)
	}
}

func TestStrictReservationNeverLeavesSharedContainersEveryCPU(t *testing.T) {
	s := settings(func(m *journaletv1.ResourceManagers) { m.CpuOptions.StrictReservation = true })
	p := admit(t, s, nil, "14/1")
	if got := s.Shared([]Pod{p}).String(); got != "0,8" {
		t.Errorf("%q are shared, want the reserved ones: no set means every CPU", got)
	}
}

func TestTopologyPoliciesAdmitAndRefuse(t *testing.T) {
	for policy, refused := range map[journaletv1.TopologyPolicy]bool{
		journaletv1.TopologyPolicy_TOPOLOGY_POLICY_UNSPECIFIED:      false,
		journaletv1.TopologyPolicy_TOPOLOGY_POLICY_BEST_EFFORT:      false,
		journaletv1.TopologyPolicy_TOPOLOGY_POLICY_RESTRICTED:       true,
		journaletv1.TopologyPolicy_TOPOLOGY_POLICY_SINGLE_NUMA_NODE: true,
	} {
		s := settings(func(m *journaletv1.ResourceManagers) { m.TopologyPolicy = policy })
		taken := []Pod{admit(t, s, nil, "4/1"), admit(t, s, nil, "4/1")}
		taken[1] = Pod{{Container: "x", Cpus: "4-5,12-13"}}
		// 2 are left in one node, 4 in the other: 5 fit only across.
		_, r := s.Admit(wants("5/1"), taken, nil)
		if (r != nil) != refused || r != nil && r.Reason != ReasonTopology {
			t.Errorf("%v: %+v", policy, r)
		}
	}
}

func TestMemoryComesFromOneNodeOrAlwaysFromTheSameOnes(t *testing.T) {
	s := settings(func(m *journaletv1.ResourceManagers) {
		m.StaticCpus, m.StaticMemory = false, true
		m.ReservedMemory = []*journaletv1.NumaMemory{{Node: 0, Bytes: gib}, {Node: 1, Bytes: gib}}
	})
	both := admit(t, s, nil, "1/10")
	if got := both.Of("a").GetMemoryNodes(); len(got) != 2 || both.Of("a").GetCpus() != "" {
		t.Errorf("10 GiB come from %v", got)
	}
	again := admit(t, s, []Pod{both}, "1/4")
	if got := again.Of("a").GetMemoryNodes(); len(got) != 2 {
		t.Errorf("nodes that serve together serve alone: %v", got)
	}
	one := admit(t, s, nil, "1/7")
	if _, r := s.Admit(wants("1/8"), []Pod{one}, nil); r == nil || r.Reason != ReasonUnexpected {
		t.Errorf("a node that serves alone serves together: %+v", r)
	}
	reused := admit(t, s, nil, "1/6 init", "1/5")
	if got := admit(t, s, []Pod{reused}, "1/1").Of("a").GetMemoryNodes(); len(got) != 1 || got[0] != 0 {
		t.Errorf("6 of 7 GiB are taken, and the next 1 comes from %v", got)
	}
}

func TestDevicesTakePartInTheAlignment(t *testing.T) {
	s := settings(func(m *journaletv1.ResourceManagers) {
		m.TopologyPolicy = journaletv1.TopologyPolicy_TOPOLOGY_POLICY_SINGLE_NUMA_NODE
	})
	near := &oneResource{DeviceRequest: DeviceRequest{Count: 1, All: []Mask{1, 2}, Free: []Mask{2}}}
	p, r := s.Admit(wants("2/1"), nil, near)
	if r != nil || p.CPUs().String() != "4,12" || near.at != 2 {
		t.Errorf("beside a device of node 1: %v, %+v, devices at %b", p, r, near.at)
	}
	none := &oneResource{DeviceRequest: DeviceRequest{Count: 1, All: []Mask{1, 2}}}
	if _, r := s.Admit(wants("2/1"), nil, none); r == nil || r.Reason != ReasonTopology {
		t.Errorf("without a device that can serve it: %+v", r)
	}
}

// oneResource are the devices of one resource that a pod with one container requests; at is where it gets them.
type oneResource struct {
	DeviceRequest
	at Mask
}

func (o *oneResource) Containers() []*journaletv1.ExclusiveRequest {
	return []*journaletv1.ExclusiveRequest{{Container: "a"}}
}
func (o *oneResource) Requests(string) []DeviceRequest { return []DeviceRequest{o.DeviceRequest} }
func (o *oneResource) PodRequests() []DeviceRequest    { return []DeviceRequest{o.DeviceRequest} }
func (o *oneResource) Take(_ string, nodes Mask)       { o.at = nodes }

func TestDevicesAreAlignedWithoutAnythingElse(t *testing.T) {
	s := NewSettings(&journaletv1.ResourceManagers{
		Topology: machine(), TopologyPolicy: journaletv1.TopologyPolicy_TOPOLOGY_POLICY_RESTRICTED,
	})
	two := &oneResource{DeviceRequest: DeviceRequest{Count: 2, All: []Mask{1, 1, 2, 2, 0}, Free: []Mask{1, 2, 2, 0}}}
	if _, r := s.Admit(nil, nil, two); r != nil || two.at != 2 {
		t.Errorf("two devices of one node: %+v, at %b", r, two.at)
	}
	apart := &oneResource{DeviceRequest: DeviceRequest{Count: 2, All: []Mask{1, 1, 2, 2}, Free: []Mask{1, 2}}}
	if _, r := s.Admit(nil, nil, apart); r == nil || r.Reason != ReasonTopology {
		t.Errorf("two of two nodes, where one node has two: %+v", r)
	}
}

func TestHintsOfDevices(t *testing.T) {
	for name, c := range map[string]struct {
		request DeviceRequest
		want    string
	}{
		"at no node": {DeviceRequest{Count: 1, All: []Mask{0, 0}, Free: []Mask{0}}, "[{0 true}]"},
		"too few":    {DeviceRequest{Count: 2, All: []Mask{1, 2}, Free: []Mask{1}}, "[]"},
		"one of either": {
			DeviceRequest{Count: 1, All: []Mask{1, 2}, Free: []Mask{1, 2}}, "[{1 true} {2 true} {3 false}]",
		},
		"at both nodes":      {DeviceRequest{Count: 1, All: []Mask{3}, Free: []Mask{3}}, "[{1 true} {2 true} {3 false}]"},
		"of an unknown node": {DeviceRequest{Count: 1, All: []Mask{1, 16}, Free: []Mask{16}}, "[]"},
		"those that it keeps": {
			DeviceRequest{Count: 1, All: []Mask{1, 2}, Free: []Mask{1}, Reusable: []Mask{2}}, "[{2 true} {3 false}]",
		},
	} {
		if got := fmt.Sprint(c.request.hints(3)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestOnlyGuaranteedPodsWithoutResourcesOfTheirOwnRequestAlone(t *testing.T) {
	list := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "a", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}}}}
	guaranteed := journaletv1.QosClass_QOS_CLASS_GUARANTEED
	want := &journaletv1.ExclusiveRequests{Containers: []*journaletv1.ExclusiveRequest{
		{Container: "a", MilliCpu: 2000, Memory: []*journaletv1.HugePages{{Bytes: gib}}}}}
	if got := Requests(p, guaranteed); !proto.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := Requests(p, journaletv1.QosClass_QOS_CLASS_BURSTABLE); got != nil {
		t.Errorf("a Burstable pod requests %v", got)
	}
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: list, Limits: list}
	if got := Requests(p, guaranteed); got != nil {
		t.Errorf("a pod with resources of its own requests %v", got)
	}
}

func TestWhatIsReservedIsNotAllocatable(t *testing.T) {
	s := settings(func(m *journaletv1.ResourceManagers) {
		m.StaticMemory = true
		m.Topology.Nodes[1].HugePages = []*journaletv1.HugePages{{PageBytes: 2 << 20, Bytes: gib}}
		m.ReservedMemory = []*journaletv1.NumaMemory{{Node: 0, Bytes: gib}}
	})
	text := func(s *Settings) string {
		cpus, memory := s.Allocatable()
		out := cpus.String()
		for _, m := range memory {
			out += fmt.Sprintf(" %d:%d:%d", m.GetNode(), m.GetPageBytes(), m.GetBytes()>>30)
		}
		return out
	}
	if got := text(s); got != "1-7,9-15 0:0:7 1:0:7 1:2097152:1" {
		t.Errorf("allocatable are %s", got)
	}
	if got := text(nil) + text(NewSettings(&journaletv1.ResourceManagers{
		Topology: machine(), TopologyPolicy: journaletv1.TopologyPolicy_TOPOLOGY_POLICY_RESTRICTED,
	})); got != "" {
		t.Errorf("without a static policy %s are allocatable", got)
	}
}

func TestListsOfCPUsAreBounded(t *testing.T) {
	for list, want := range map[string]string{
		"0-1,8": "0-1,8", "": "", "3": "3", "x": "", "1-": "", "0-4000000000": "", "65536": "", "-1": "", "3-1": "",
	} {
		if got := Parse(list).String(); got != want {
			t.Errorf("%q is %q, want %q", list, got, want)
		}
	}
}

func TestMachinesThatCannotBeAlignedAreRefused(t *testing.T) {
	m := &journaletv1.ResourceManagers{Topology: machine(), StaticMemory: true}
	for range MostNodes {
		m.Topology.Nodes = append(m.Topology.Nodes, &journaletv1.NumaNode{Id: 70})
	}
	if err := Check(m); err == nil || !strings.Contains(err.Error(), "14 NUMA nodes") {
		t.Errorf("many nodes: %v", err)
	}
	m.StaticMemory = false
	if err := Check(m); err == nil || !strings.Contains(err.Error(), "NUMA node 70") {
		t.Errorf("a high node: %v", err)
	}
}
