package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/actors/devices"
	"github.com/journalet/journalet/actors/exclusive"
	podactor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// managersCase is a machine, its settings, and pods that begin and end on it.
type managersCase struct {
	Machine  machine           `json:"machine"`
	CPU      string            `json:"cpu"`
	Memory   string            `json:"memory"`
	Topology string            `json:"topology"`
	Scope    string            `json:"scope"`
	Options  map[string]string `json:"options,omitempty"`
	Closest  bool              `json:"closest,omitempty"`
	// Reserved is how many CPUs are reserved, in thousandths; ReservedCPUs which ones instead.
	Reserved     int64  `json:"reserved"`
	ReservedCPUs string `json:"reservedCPUs,omitempty"`
	// Devices are the NUMA nodes of each device of a plugin, such as 0 or 0+1; - means no node, and ! before them
	// unhealthy.
	Devices []string `json:"devices,omitempty"`
	Pods    []work   `json:"pods"`
}

// machine has as many NUMA nodes in each socket, or, if Nodes is negative, as many sockets in each NUMA node.
type machine struct {
	Sockets int  `json:"sockets"`
	Nodes   int  `json:"nodes"`
	Cores   int  `json:"cores"` // of the smaller of the two
	Threads int  `json:"threads"`
	Caches  int  `json:"caches"` // as Cores
	Far     bool `json:"far,omitempty"`
	Huge    bool `json:"huge,omitempty"`
	// Interleaved numbers the threads of a core one after the other.
	Interleaved bool `json:"interleaved,omitempty"`
}

type work struct {
	Containers []part `json:"containers,omitempty"`
	// Things is how many devices each container requests; all request as many, so that which ones are reused is certain.
	Things int `json:"things,omitempty"`
	// Burstable: containers have no limit of memory.
	Burstable bool `json:"burstable,omitempty"`
	// End is the number of the pod that ends before, from 1.
	End int `json:"end,omitempty"`
}

type part struct {
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	Huge   string `json:"huge,omitempty"`
	Kind   string `json:"kind,omitempty"` // init, sidecar
}

const gib = 1 << 30

// build returns the machine. Each NUMA node has 8 GiB, 2 of them in huge pages with Huge, and 1 GiB is reserved of
// each.
func (m machine) build() *journaletv1.NodeTopology {
	if m.Sockets < 1 || m.Nodes == 0 || m.Cores < 1 || m.Threads < 1 || m.Caches < 1 || m.Cores%m.Caches != 0 ||
		m.Sockets > 8 || m.Nodes > 8 || m.Cores > 64 || m.Threads > 4 {
		return nil
	}
	t := new(journaletv1.NodeTopology)
	blocks, perNode, perSocket := m.Sockets*m.Nodes, 1, m.Nodes
	if m.Nodes < 0 {
		perNode, perSocket = -m.Nodes, 1
		blocks = m.Sockets
		if m.Sockets%perNode != 0 {
			return nil
		}
	}
	for b := range blocks {
		for c := range m.Cores {
			core := &journaletv1.CpuCore{
				NumaNode: uint32(b / perNode), Socket: uint32(b / perSocket),
				Cache: uint32(b*m.Caches + c/(m.Cores/m.Caches)),
			}
			n := b*m.Cores + c
			for thread := range m.Threads {
				cpu := n + thread*blocks*m.Cores
				if m.Interleaved {
					cpu = n*m.Threads + thread
				}
				core.Cpus = append(core.Cpus, uint32(cpu))
			}
			t.Cores = append(t.Cores, core)
		}
	}
	nodes := blocks / perNode
	for i := range nodes {
		n := &journaletv1.NumaNode{Id: uint32(i), MemoryBytes: 8 * gib}
		if m.Huge {
			n.HugePages = []*journaletv1.HugePages{{PageBytes: 2 << 20, Bytes: gib}, {PageBytes: gib, Bytes: gib}}
		}
		for j := range nodes {
			d := 10 + 10*max(i-j, j-i)
			if m.Far {
				d = 10 + 10*((i^j)&3)
			}
			n.Distances = append(n.Distances, uint32(d))
		}
		t.Nodes = append(t.Nodes, n)
	}
	return t
}

// generateManagers returns machines from a laptop to eight NUMA nodes.
func generateManagers(g *pods.Generator) string {
	c := managersCase{
		Machine: pods.Pick(g,
			machine{Sockets: 1, Nodes: 1, Cores: 4, Threads: 2, Caches: 1},
			machine{Sockets: 1, Nodes: 1, Cores: 8, Threads: 1, Caches: 2},
			machine{Sockets: 2, Nodes: 1, Cores: 4, Threads: 2, Caches: 1},
			machine{Sockets: 2, Nodes: 1, Cores: 8, Threads: 2, Caches: 2},
			machine{Sockets: 2, Nodes: 2, Cores: 4, Threads: 2, Caches: 2},
			machine{Sockets: 1, Nodes: 4, Cores: 4, Threads: 2, Caches: 1},
			machine{Sockets: 4, Nodes: -2, Cores: 3, Threads: 2, Caches: 1},
			machine{Sockets: 2, Nodes: 2, Cores: 4, Threads: 1, Caches: 1}),
		CPU: pods.Pick(g, "static", "static", "static", "none"), Memory: pods.Pick(g, "None", "Static", "Static"),
		Topology: pods.Pick(g, "none", "best-effort", "restricted", "restricted", "single-numa-node", "single-numa-node"),
		Scope:    pods.Pick(g, "container", "pod"), Closest: g.Chance(30),
		Reserved: pods.Pick[int64](g, 1, 500, 1000, 1000, 2000, 3000),
	}
	c.Machine.Far, c.Machine.Huge, c.Machine.Interleaved = g.Chance(30), g.Chance(40), g.Chance(40)
	if g.Chance(30) {
		c.ReservedCPUs = pods.Pick(g, "0", "0-1", "3", "0,4", "1,2")
	}
	if c.CPU == "static" {
		c.Options = map[string]string{}
		for range g.N(3) {
			c.Options[pods.Pick(g, "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket",
				"distribute-cpus-across-cores", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache")] = "true"
		}
	}
	if g.Chance(50) {
		for range 2 + g.N(9) {
			c.Devices = append(c.Devices, pods.Pick(g, "0", "0", "1", "1", "2", "3", "0+1", "-", "!0", "9"))
		}
	}
	for i := range 3 + g.N(10) {
		w := work{}
		if len(c.Devices) > 0 && g.Chance(70) {
			w.Things = 1 + g.N(pods.Pick(g, 1, 3))
		}
		w.Burstable = w.Things > 0 && g.Chance(20)
		if i > 1 && g.Chance(35) {
			w.End = 1 + g.N(i)
		}
		for range 1 + g.N(pods.Pick(g, 1, 1, 4)) {
			p := part{CPU: pods.Pick(g, "1", "1", "2", "2", "3", "4", "5", "6", "8", "12", "500m", "1500m"),
				Memory: pods.Pick(g, "256Mi", "1Gi", "2Gi", "3Gi", "5Gi", "7Gi", "9Gi")}
			if g.Chance(35) {
				p.Kind = pods.Pick(g, "init", "init", "sidecar")
			}
			if c.Machine.Huge && g.Chance(25) {
				p.Huge = pods.Pick(g, "2Mi", "512Mi", "1Gi", "1500Mi")
			}
			w.Containers = append(w.Containers, p)
		}
		w.Containers = append(w.Containers, part{CPU: pods.Pick(g, "1", "2", "2", "4", "100m"), Memory: "512Mi"})
		c.Pods = append(c.Pods, w)
	}
	return toYAML(c)
}

func (w work) pod(i int) (*corev1.Pod, bool) {
	p := &corev1.Pod{}
	p.Name, p.UID = fmt.Sprintf("p%d", i), uidOf(i)
	always := corev1.ContainerRestartPolicyAlways
	for n, one := range w.Containers {
		list := corev1.ResourceList{}
		for name, text := range map[corev1.ResourceName]string{
			"cpu": one.CPU, "memory": one.Memory, "hugepages-2Mi": one.Huge,
		} {
			q, err := resource.ParseQuantity(text)
			if text != "" && (err != nil || q.Sign() <= 0) {
				return nil, false
			}
			if text != "" {
				list[name] = q
			}
		}
		if w.Things > 0 {
			list[kubelet.Thing] = *resource.NewQuantity(int64(w.Things), resource.DecimalSI)
		}
		c := corev1.Container{Name: fmt.Sprintf("c%d", n), Resources: corev1.ResourceRequirements{
			Requests: list, Limits: list.DeepCopy()}}
		if w.Burstable {
			delete(c.Resources.Limits, corev1.ResourceMemory)
		}
		switch one.Kind {
		case "init":
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case "sidecar":
			c.RestartPolicy = &always
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p, len(p.Spec.Containers) > 0
}

// options returns what our settings and the kubelet's have in common.
func (c managersCase) options() (*journaletv1.ResourceManagers, kubelet.ManagerOptions) {
	t := c.Machine.build()
	ours := &journaletv1.ResourceManagers{
		Topology: t, StaticCpus: c.CPU == "static", StaticMemory: c.Memory == "Static", PodScope: c.Scope == "pod",
		PreferClosest: c.Closest, ReservedCpus: c.ReservedCPUs,
		CpuOptions: &journaletv1.CpuOptions{
			FullCores: c.Options["full-pcpus-only"] != "", AcrossNuma: c.Options["distribute-cpus-across-numa"] != "",
			BySocket: c.Options["align-by-socket"] != "", AcrossCores: c.Options["distribute-cpus-across-cores"] != "",
			StrictReservation: c.Options["strict-cpu-reservation"] != "",
			ByCache:           c.Options["prefer-align-cpus-by-uncorecache"] != "",
		},
		TopologyPolicy: map[string]journaletv1.TopologyPolicy{
			"best-effort":      journaletv1.TopologyPolicy_TOPOLOGY_POLICY_BEST_EFFORT,
			"restricted":       journaletv1.TopologyPolicy_TOPOLOGY_POLICY_RESTRICTED,
			"single-numa-node": journaletv1.TopologyPolicy_TOPOLOGY_POLICY_SINGLE_NUMA_NODE,
		}[c.Topology],
	}
	theirs := kubelet.ManagerOptions{
		Machine: t, CPUPolicy: c.CPU, MemoryPolicy: c.Memory, TopologyPolicy: c.Topology, Scope: c.Scope,
		CPUOptions: c.Options, ReservedMilliCPU: c.Reserved, ReservedCPUs: c.ReservedCPUs, Devices: c.devices(),
	}
	if c.Closest && c.Topology != "none" {
		theirs.TopologyOptions = map[string]string{"prefer-closest-numa-nodes": "true"}
	}
	if list := exclusive.Parse(c.ReservedCPUs); !list.IsEmpty() {
		theirs.ReservedMilliCPU = int64(1000 * list.Size())
	}
	if ours.StaticMemory {
		for _, n := range t.GetNodes() {
			ours.ReservedMemory = append(ours.ReservedMemory, &journaletv1.NumaMemory{Node: n.GetId(), Bytes: gib})
		}
		theirs.ReservedMemory = ours.ReservedMemory
	}
	return ours, theirs
}

// devices returns the devices of the machine's plugin.
func (c managersCase) devices() (all []*journaletv1.Device) {
	for i, text := range c.Devices[:min(len(c.Devices), 26)] {
		nodes, unhealthy := strings.CutPrefix(text, "!")
		d := &journaletv1.Device{Id: string(rune('a' + i)), Healthy: !unhealthy}
		for one := range strings.SplitSeq(nodes, "+") {
			if n, err := strconv.ParseUint(one, 10, 6); err == nil {
				d.NumaNodes = append(d.NumaNodes, int64(n))
			}
		}
		all = append(all, d)
	}
	return all
}

// things are the devices that pods have, by their numbers.
type things struct {
	resource *journaletv1.DeviceResource
	has      map[int][]*journaletv1.ContainerDevices
}

// thingsOf returns the devices of a plugin. No pod has any of them.
func thingsOf(all []*journaletv1.Device) things {
	t := things{has: map[int][]*journaletv1.ContainerDevices{}}
	if len(all) > 0 {
		t.resource = &journaletv1.DeviceResource{Connected: true, Preferred: true, Devices: map[string]*journaletv1.Device{}}
	}
	for _, d := range all {
		t.resource.Devices[d.GetId()] = d
	}
	return t
}

// admit has a pod take what it requests. A preference of the plugin is answered as often as one is requested.
func (t things) admit(
	s *exclusive.Settings, p *corev1.Pod, taken []exclusive.Pod,
) (exclusive.Pod, devices.Choice, *exclusive.Refusal) {
	pools := map[string]devices.Pool{}
	if t.resource != nil {
		used := map[string]bool{}
		for _, all := range t.has {
			for _, d := range all {
				for _, id := range d.GetIds() {
					used[id] = true
				}
			}
		}
		pools[kubelet.Thing] = devices.Pool{Resource: t.resource, Taken: used}
	}
	var answers []*journaletv1.ContainerDevices
	for {
		chooser := devices.NewChooser(devices.Demand(p), pools, answers)
		got, refusal := s.Admit(exclusive.Requests(p, qosOf(p)), taken, chooser)
		choice := chooser.Finish()
		q := choice.Request
		if q == nil || choice.Short != nil {
			return got, choice, refusal
		}
		answers = append(answers, &journaletv1.ContainerDevices{
			Container: q.GetContainer(), Resource: q.GetResource(),
			Ids: kubelet.Preferred(q.GetAvailable(), q.GetChosen(), int(q.GetCount())),
		})
	}
}

func qosOf(p *corev1.Pod) journaletv1.QosClass {
	if podactor.QOS(p) == corev1.PodQOSGuaranteed {
		return journaletv1.QosClass_QOS_CLASS_GUARANTEED
	}
	return journaletv1.QosClass_QOS_CLASS_BURSTABLE
}

// compareManagers compares the exclusive resources that containers get, and why pods get none, with the kubelet's
// managers.
func compareManagers(c *testCase) {
	s := managersCase{}
	if yaml.Unmarshal([]byte(c.text), &s) != nil || s.Machine.build() == nil {
		return
	}
	settings, options := s.options()
	theirs, err := kubelet.NewManagers(options)
	if theirs != nil {
		defer func() { check("close", theirs.Close()) }()
	}
	if err != nil {
		c.count("settings that are refused")
		return
	}
	if settings.ReservedCpus == "" && settings.StaticCpus {
		set, err := exclusive.Reserved(settings.Topology, settings.CpuOptions, int((s.Reserved+999)/1000))
		check("reserve", err)
		settings.ReservedCpus = set.String()
	}
	ours := exclusive.NewSettings(settings)
	plugin := thingsOf(options.Devices)
	var run []given // in the order of their admission
	taken := func() (all []exclusive.Pod) {
		for _, g := range run {
			all = append(all, g.alone)
		}
		return all
	}
	for i, w := range s.Pods {
		if w.End > 0 {
			run = slices.DeleteFunc(run, func(g given) bool { return g.pod.UID == uidOf(w.End-1) })
			theirs.End(uidOf(w.End - 1))
			delete(plugin.has, w.End-1)
		}
		p, ok := w.pod(i)
		if !ok || podactor.QOS(p) != corev1.PodQOSGuaranteed && !w.Burstable {
			return
		}
		got, choice, refusal := plugin.admit(ours, p, taken())
		if choice.Short != nil {
			// Ours is rejected before anything is aligned. Theirs would keep what containers before the refused
			// container have taken, until it is swept.
			c.count("too few devices")
			continue
		}
		mine := alone(p, got, choice.Devices)
		if refusal != nil {
			mine = refusal.Reason + ": " + refusal.Message
			c.count("refused: " + refusal.Reason)
		} else {
			run, plugin.has[i] = append(run, given{p, got, choice.Devices}), choice.Devices
			c.count("admitted")
			if len(choice.Devices) > 0 {
				c.count("admitted with devices")
			}
		}
		key := aloneIn(theirs)
		if there := theirs.Admit(p); withoutRule(mine) != withoutRule(there) {
			c.differs(key, fmt.Sprintf("pod %d\n%s", i, mine), fmt.Sprintf("pod %d\n%s", i, there))
			return
		}
		// With all CPUs given out the kubelet's containers run everywhere.
		if mine, there := ours.Shared(taken()).String(), theirs.Shared(); mine != there && there != "" {
			c.differs("what containers share", fmt.Sprintf("pod %d: %s", i, mine), fmt.Sprintf("pod %d: %s", i, there))
			return
		}
	}
	compareHandback(c, settings, options, plugin.resource, run)
}

// aloneIn names the exclusive resources of containers, by what the kubelet's managers have done before.
func aloneIn(theirs *kubelet.Managers) string {
	const key = "exclusive resources"
	moved, err := theirs.MemoryMoved()
	check("read the state of the memory manager", err)
	if moved {
		return key + " after memory of several NUMA nodes was given back"
	}
	return key
}

// withoutRule cuts the message of a rejection for memory: which rule of several it breaks depends, in the kubelet, on
// what a pod had taken that was rejected before.
func withoutRule(text string) string {
	before, _, _ := strings.Cut(text, "[memorymanager]")
	return before
}

func alone(p *corev1.Pod, got exclusive.Pod, things []*journaletv1.ContainerDevices) string {
	var text []string
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c := got.Of(list[i].Name)
			nodes := append([]uint32{}, c.GetMemoryNodes()...)
			var ids []string
			for _, d := range things {
				if d.GetContainer() == list[i].Name {
					ids = append(ids, d.GetIds()...)
				}
			}
			text = append(text, fmt.Sprintf("%s: %s, memory of %v%s", list[i].Name, c.GetCpus(), nodes,
				kubelet.DevicesText(ids)))
		}
	}
	return strings.Join(text, "\n")
}
