package scenario

import (
	"fmt"

	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
)

// managers returns the settings of a command: managers=(static,Static,restricted) names the policies; the machine has
// as many NUMA nodes as it says, each of 4 CPUs in 2 cores and 4 GiB, of which 1 GiB is reserved, and CPU 0 is.
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

// aloneText names what the containers of a pod have alone, or what is reserved for them.
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
	if has := g.world.of(s.GetObserved().GetUid()).cpus[c.GetId()]; has != want {
		report("container %s runs on CPUs %q, and is to run on %s", c.GetId(), has, want)
	}
}
