package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A node whose containers may have exclusive CPUs and memory: its machine, its policies, and the pods that request
// them.

// managed is what the plan of such a node configures.
type managed struct {
	managers *journaletv1.ResourceManagers
	// all are the machine's CPUs, reserved the CPUs that nobody has exclusively.
	all, reserved cpuset.CPUSet
	// nodes are the CPUs of each NUMA node, memory is what each has for pods, in bytes.
	nodes  []cpuset.CPUSet
	memory []int64
	// threads is the number of CPUs of a core.
	threads int
	// users are the ids that pods share out.
	users *journaletv1.UserNamespaceRange
	// offers are the device plugins.
	offers []offer
	// kubelet is set if a kubelet had run the pods first.
	kubelet bool
}

// settings returns what the node has to know; nil for a plan that gives nothing to containers alone.
func (n *managed) settings() *journaletv1.ResourceManagers {
	if n == nil {
		return nil
	}
	return n.managers
}

// Exclusive returns the plan of a seed with a node that gives exclusive CPUs and memory to containers. Its pods come
// from files.
func Exclusive(seed uint64) *Plan {
	p := PlanOf(seed)
	r := stream(seed, "plan of exclusive resources")
	p.config.managed = managedOf(r)
	p.config.cpu, p.config.memory = 1000*int64(p.config.managed.all.Size()-p.config.managed.reserved.Size()), 0
	for _, bytes := range p.config.managed.memory {
		p.config.memory += bytes
	}
	p.config.managed.drawUsers(stream(seed, "plan of user namespaces"))
	p.config.url, p.config.urls = "", false
	p.Ops = slices.DeleteFunc(p.Ops, func(o Op) bool {
		return o.Kind == "serve" || o.Kind == "another URL" || o.Kind == "the URL fails"
	})
	for i, o := range p.Ops {
		if o.Kind == "write" && !chance(r, 3) {
			p.Ops[i].body = guaranteedBody(r, o.body)
		}
		if o.Kind == "write" {
			p.Ops[i].body = withOwnUsers(p.Ops[i].body)
		}
	}
	if r := stream(seed, "plan of plugins"); chance(r, 2) {
		p.pluginWorkload(r)
	}
	p.inOrder()
	return p
}

// Each shape of a machine: sockets, NUMA nodes of a socket, cores of a node, CPUs of a core.
var machines = [][4]int{{2, 1, 4, 2}, {2, 2, 2, 2}, {1, 1, 8, 2}, {2, 1, 6, 1}, {1, 2, 4, 2}, {2, 1, 8, 2}}

// managedOf draws a machine and the policies of its managers.
func managedOf(r *rand.Rand) *managed {
	shape := machines[r.IntN(len(machines))]
	n := &managed{
		threads: shape[3], managers: &journaletv1.ResourceManagers{StaticCpus: true, Topology: machineOf(r, shape)},
	}
	n.managers.TopologyPolicy = journaletv1.TopologyPolicy(r.IntN(4))
	n.managers.StaticMemory, n.managers.PodScope, n.managers.PreferClosest = chance(r, 2), chance(r, 2), chance(r, 2)
	n.managers.CpuOptions = pick(r, &journaletv1.CpuOptions{}, &journaletv1.CpuOptions{FullCores: true},
		&journaletv1.CpuOptions{FullCores: true, StrictReservation: true}, &journaletv1.CpuOptions{StrictReservation: true},
		&journaletv1.CpuOptions{AcrossNuma: true}, &journaletv1.CpuOptions{AcrossCores: true},
		&journaletv1.CpuOptions{ByCache: true}, &journaletv1.CpuOptions{FullCores: true, ByCache: true})
	if n.managers.GetTopologyPolicy() != journaletv1.TopologyPolicy_TOPOLOGY_POLICY_SINGLE_NUMA_NODE && shape[1] == 1 {
		n.managers.CpuOptions.BySocket = chance(r, 3)
	}
	byNode := map[uint32][]int{}
	for _, core := range n.managers.GetTopology().GetCores() {
		for _, cpu := range core.GetCpus() {
			byNode[core.GetNumaNode()] = append(byNode[core.GetNumaNode()], int(cpu))
		}
	}
	for _, node := range n.managers.GetTopology().GetNodes() {
		n.nodes = append(n.nodes, cpuset.New(byNode[node.GetId()]...))
		n.all = n.all.Union(n.nodes[len(n.nodes)-1])
		// What the node reserves is reserved in each NUMA node.
		const reserved = 1 << 30
		n.memory = append(n.memory, node.GetMemoryBytes()-reserved)
		n.managers.ReservedMemory = append(n.managers.ReservedMemory,
			&journaletv1.NumaMemory{Node: node.GetId(), Bytes: reserved})
	}
	for _, cpu := range n.managers.GetTopology().GetCores()[0].GetCpus() {
		n.reserved = n.reserved.Union(cpuset.New(int(cpu)))
	}
	if chance(r, 3) {
		n.reserved = cpuset.New(n.all.List()[0])
	}
	n.managers.ReservedCpus = n.reserved.String()
	return n
}

// machineOf returns the CPUs and the memory of a machine. The kernel numbers the threads of a core next to each other,
// or the second ones after all first ones.
func machineOf(r *rand.Rand, shape [4]int) *journaletv1.NodeTopology {
	t, apart, caches := new(journaletv1.NodeTopology), chance(r, 2), 1+r.IntN(2)
	bytes := int64(pick(r, 8, 16, 64)) << 30
	cores := shape[0] * shape[1] * shape[2]
	for node := range shape[0] * shape[1] {
		n := &journaletv1.NumaNode{Id: uint32(node), MemoryBytes: bytes}
		for other := range shape[0] * shape[1] {
			distance := uint32(21)
			switch {
			case other == node:
				distance = 10
			case other/shape[1] == node/shape[1]:
				distance = 12
			}
			n.Distances = append(n.Distances, distance)
		}
		t.Nodes = append(t.Nodes, n)
		for core := range shape[2] {
			c := &journaletv1.CpuCore{
				NumaNode: n.GetId(), Socket: uint32(node / shape[1]), Cache: uint32(node*caches + core*caches/shape[2]),
			}
			number := node*shape[2] + core
			for thread := range shape[3] {
				cpu := number*shape[3] + thread
				if apart {
					cpu = number + thread*cores
				}
				c.Cpus = append(c.Cpus, uint32(cpu))
			}
			t.Cores = append(t.Cores, c)
		}
	}
	return t
}

// guaranteedBody gives each container of a manifest limits of CPU and memory, and no other requests: mostly whole CPUs.
func guaranteedBody(r *rand.Rand, body []byte) []byte {
	return edited(body, func(m map[string]any) {
		spec, _ := m["spec"].(map[string]any)
		for _, list := range []string{"initContainers", "containers"} {
			all, _ := spec[list].([]any)
			for _, c := range all {
				if c, ok := c.(map[string]any); ok {
					cpu := pick(r, "1", "1", "2", "2", "2", "3", "4", "6", "500m", "1500m")
					c["resources"] = map[string]any{
						"limits": map[string]any{"cpu": cpu, "memory": fmt.Sprintf("%dMi", 64+r.IntN(3000))},
					}
				}
			}
		}
	})
}

// guaranteed reports whether all containers of a pod have limits of CPU and memory, and request as much. The rule is
// written here a second time, independent of actors/pod.
func guaranteed(m *corev1.Pod) bool {
	for _, c := range slices.Concat(m.Spec.InitContainers, m.Spec.Containers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, request := c.Resources.Limits[name], c.Resources.Requests[name]
			if limit.IsZero() || limit.Cmp(request) != 0 {
				return false
			}
		}
	}
	return true
}

// wholeCPUs returns how many exclusive CPUs a container of a manifest is to have.
func wholeCPUs(m *corev1.Pod, c *corev1.Container) int {
	cpu := c.Resources.Requests[corev1.ResourceCPU]
	if milli := cpu.MilliValue(); guaranteed(m) && milli%1000 == 0 {
		return int(milli / 1000)
	}
	return 0
}

// memoryNodes returns the NUMA nodes of a list such as 0,2.
func memoryNodes(list string) cpuset.CPUSet {
	set, err := cpuset.Parse(list)
	if err != nil {
		return cpuset.New()
	}
	return set
}

// idleWithin bounds how long a pod takes on an idle node without faults, from its file to its programs: a source read
// late, an image, and calls that take their time.
const idleWithin = 2 * time.Minute

// fillIdle removes all pods, and then has a few run on the idle node, one after the other.
func (s *sim) fillIdle() {
	n, file := s.config.managed, "idle.json"
	if n == nil {
		return
	}
	for _, path := range s.directory.names() {
		s.directory.remove(path)
	}
	s.waitIdle(convergeWithin)
	for i := 0; i < s.cycles && s.judge.first == nil; i++ {
		body, cpus := n.idlePod(stream(s.seed, "idle node", strconv.Itoa(i)), i)
		s.world.images["app:1"] = true
		s.directory.write(s.manifests, file, body)
		s.play(s.clock.uptime+idleWithin, 0)
		runs := s.world.running()
		if len(runs) != 1 || runs[0].cpus.Size() != cpus {
			s.judge.broken(idleNodeRuns, "", "a pod with %d CPUs of one NUMA node: %d containers run after %s", cpus,
				len(runs), idleWithin)
		}
		s.directory.remove(file)
		s.waitIdle(idleWithin)
	}
	if s.judge.first == nil {
		s.fillUsers()
	}
}

// waitIdle waits until no pod has an actor.
func (s *sim) waitIdle(within time.Duration) {
	for end := s.clock.uptime + within; s.judge.first == nil; {
		s.play(s.clock.uptime+convergeStep, 0)
		left := slices.DeleteFunc(s.agent.cells.Refs(), func(ref messages.Ref) bool {
			return ref.Kind != journaletv1.ActorKind_ACTOR_KIND_POD
		})
		if len(left) == 0 {
			return
		}
		if s.clock.uptime >= end {
			s.judge.broken(idleNodeRuns, left[0].ID, "%d pods have not finished %s after their files were removed", len(left),
				within)
		}
	}
}

// idlePod returns a file with a pod of whole cores of one NUMA node, as many as an idle node can give, and all devices
// of a plugin.
func (n *managed) idlePod(r *rand.Rand, i int) (body []byte, cpus int) {
	node := r.IntN(len(n.nodes))
	cores := n.nodes[node].Difference(n.reserved).Size() / n.threads
	cpus = n.threads * (1 + r.IntN(cores))
	name, devices := "idle"+strconv.Itoa(i), ""
	if len(n.offers) > 0 {
		x := n.offers[r.IntN(len(n.offers))]
		devices = fmt.Sprintf(`,%q:"%d"`, x.resource, x.devices)
	}
	return []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{
		"terminationGracePeriodSeconds":1,"containers":[{"name":"main","image":"app:1","resources":{"limits":{
		"cpu":"%d","memory":"%d"%s}}}]}}`, name, cpus, n.memory[node]/2, devices)), cpus
}
