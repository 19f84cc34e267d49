package scenario

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
)

// managers returns the settings of a command: managers=(static,Static,restricted) names the policies; the machine has
// as many NUMA nodes as numa-nodes says, each of 4 CPUs in 2 cores and 4 GiB. CPU 0 and 1 GiB of each node are
// reserved.
func managers(d *datadriven.TestData) *journaletv1.ResourceManagers {
	policies := values(d, "managers")
	if len(policies) == 0 || policies[0] == "none" {
		return nil
	}
	m := &journaletv1.ResourceManagers{ReservedCpus: "0", Topology: new(journaletv1.NodeTopology)}
	for _, p := range policies {
		switch p {
		case "static":
			m.StaticCpus = true
		case "Static":
			m.StaticMemory = true
		case "restricted":
			m.TopologyPolicy = journaletv1.TopologyPolicy_TOPOLOGY_POLICY_RESTRICTED
		case "single-numa-node":
			m.TopologyPolicy = journaletv1.TopologyPolicy_TOPOLOGY_POLICY_SINGLE_NUMA_NODE
		case "full-pcpus-only":
			m.CpuOptions = &journaletv1.CpuOptions{FullCores: true}
		default:
			panic("no such policy: " + p)
		}
	}
	for n := range uint32(number(d, "numa-nodes", 1)) {
		m.Topology.Nodes = append(m.Topology.Nodes, &journaletv1.NumaNode{Id: n, MemoryBytes: 4 << 30})
		m.ReservedMemory = append(m.ReservedMemory, &journaletv1.NumaMemory{Node: n, Bytes: 1 << 30})
		for c := range uint32(2) {
			m.Topology.Cores = append(m.Topology.Cores, &journaletv1.CpuCore{
				NumaNode: n, Socket: n, Cache: n, Cpus: []uint32{4*n + 2*c, 4*n + 2*c + 1},
			})
		}
	}
	return m
}

// kubeletState returns what a kubelet left, from the body of a command: a container a line, as "<pod> <container>
// cpus=<list> node=<NUMA node> memory=<quantity> <resource>=<id>,<id>", each of these once or not at all.
func (s *Scenario) kubeletState(d *datadriven.TestData) *journaletv1.KubeletState {
	if strings.TrimSpace(d.Input) == "" {
		return nil
	}
	out := &journaletv1.KubeletState{Pods: map[string]*journaletv1.KubeletPod{}}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		uid := s.uidOrName(words[0])
		if out.Pods[uid] == nil {
			out.Pods[uid] = new(journaletv1.KubeletPod)
		}
		c := &journaletv1.ExclusiveContainer{Container: words[1]}
		for _, word := range words[2:] {
			switch key, value, _ := strings.Cut(word, "="); key {
			case "cpus":
				c.Cpus = value
			case "node":
				c.MemoryNodes = append(c.MemoryNodes, uint32(value[0]-'0'))
			case "memory":
				q := resource.MustParse(value)
				c.Memory = append(c.Memory, &journaletv1.HugePages{Bytes: q.Value()})
			default:
				out.Pods[uid].Devices = append(out.Pods[uid].Devices, &journaletv1.ContainerDevices{
					Container: words[1], Resource: key, Ids: strings.Split(value, ","),
				})
			}
		}
		if c.GetCpus() != "" || c.GetMemory() != nil {
			out.Pods[uid].Exclusive = append(out.Pods[uid].Exclusive, c)
		}
	}
	return out
}

// uidOrName returns the UID of a pod of the scenario, or the name itself if no pod has it.
func (s *Scenario) uidOrName(name string) string {
	for known, alias := range s.g.names.alias {
		if alias == name {
			return known
		}
	}
	return name
}

// foundResources returns what the directories of pods have, as they were left. The argument found names pods in the
// order that they got it.
func (s *Scenario) foundResources(
	d *datadriven.TestData, left *journaletv1.KubeletState,
) map[string]*journaletv1.GivenResources {
	out := map[string]*journaletv1.GivenResources{}
	for uid, p := range left.GetPods() {
		out[uid] = &journaletv1.GivenResources{Exclusive: p.GetExclusive(), Devices: p.GetDevices()}
	}
	for i, name := range values(d, "found") {
		out[s.uidOrName(name)].Number = uint64(i) + 1
	}
	return out
}

// givenText names what the directory of a pod is to have.
func givenText(g *journaletv1.GivenResources) string {
	if g == nil {
		return ""
	}
	text := " given" + aloneText(g.GetExclusive()) + deviceIDs(g.GetDevices())
	if rest := g.GetRest(); rest != nil {
		text += strings.TrimRight(" rest "+rest.GetCpus(), " ")
		for _, d := range rest.GetDevices() {
			text += fmt.Sprintf(" %s:%s=%s", d.GetContainer(), d.GetResource(), strings.Join(d.GetIds(), ","))
		}
	}
	return text
}

// aloneText names the exclusive resources of a pod's containers, or what is reserved for them.
func aloneText(list []*journaletv1.ExclusiveContainer) string {
	text := ""
	for _, c := range list {
		text += " " + c.GetContainer() + "=" + c.GetCpus()
		if len(c.GetMemoryNodes()) > 0 {
			text += fmt.Sprint("@", c.GetMemoryNodes())
		}
	}
	return text
}

// placementText names where a container is to run.
func placementText(p *journaletv1.Placement) string {
	if p == nil {
		return ""
	}
	text := " on " + p.GetCpus()
	if len(p.GetMemoryNodes()) > 0 {
		text += fmt.Sprint("@", p.GetMemoryNodes())
	}
	if p.GetExclusive() {
		text += " alone"
	}
	return text
}

// checkPlacement reports a running container that is not on the CPUs that it is to have when nothing is left to happen.
func (g *engine) checkPlacement(a *pod.Actor, c *journaletv1.ContainerObservation, report func(string, ...any)) {
	s := a.Pod()
	if !alive(c) || a.Manifest() == nil || s.GetSharedCpus() == "" {
		return
	}
	want := s.GetSharedCpus()
	if own := exclusive.Pod(s.GetExclusive()).Of(c.GetName()); own.GetCpus() != "" {
		want = own.GetCpus()
	}
	if has := g.world.objectsOf(s.GetObserved().GetUid()).cpus[c.GetId()]; has != want {
		report("container %s runs on CPUs %q, and is to run on %s", c.GetId(), has, want)
	}
}
