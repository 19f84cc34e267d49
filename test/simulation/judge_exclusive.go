package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of exclusive resources. They are judged by what the runtime was requested, and by manifests.
const (
	cpusExclusive  = "no other running container has a container's exclusive CPUs"
	wholeExclusive = "a Guaranteed container with whole CPUs has exactly as many exclusive CPUs, and none that is reserved"
	sharedLeft     = "containers that share CPUs run on those that are left, and move there"
	memoryOfNodes  = "containers get no more memory of NUMA nodes than these have"
	onOneNode      = "with single-numa-node a container has CPUs and memory of one NUMA node"
	refusedRightly = "a pod is refused exclusive resources only by the settings"
	rejectedNever  = "a pod that was rejected does not run"
	idleNodeRuns   = "a pod that fits an idle node runs there"
)

// sharedMovesWithin bounds how long a container runs on the exclusive CPUs of another one, while nothing hinders the
// agent: the time of some calls that wait for others.
const sharedMovesWithin = 30 * time.Second

// exclusiveBook is what the judge knows of the moves of containers that share CPUs.
type exclusiveBook struct {
	// since is when a container was first seen on the exclusive CPUs of another one, by id.
	since map[string]time.Duration
	// epoch and run are the agent's run and the runtime's run at the last check.
	epoch uint64
	run   int
	// failedAt is when an update of a container failed last.
	failedAt time.Duration
	// left is what a kubelet had given to pods that are not decided yet, by UID.
	left map[string]*journaletv1.KubeletPod
	// found is what pods had before the journal began, by UID: a kubelet had given it, or their directories showed it.
	// What the world shows of these is judged, as always.
	found map[string]*foundBook
}

// foundBook is what a pod had before the journal began.
type foundBook struct {
	cpus    cpuset.CPUSet
	devices []*journaletv1.ContainerDevices
	// endedBy is the record of the pod's end; 0: it has not ended. Until then nobody else gets any of it.
	endedBy uint64
}

// keeps reports whether a pod keeps what it had. The node decided on record cause, and did not know later ends.
func (f *foundBook) keeps(cause uint64) bool { return f.endedBy == 0 || f.endedBy > cause }

// placed judges where the runtime is to run a container, and notes it. m is the pod with what is allocated to it.
func (j *judge) placed(c *container, m *corev1.Pod, spec *corev1.Container, r *runtimeapi.LinuxContainerResources,
	moves bool,
) {
	n := j.sim.config.managed
	if n == nil {
		return
	}
	cpus, err := cpuset.Parse(r.GetCpusetCpus())
	if err != nil {
		j.broken(wholeExclusive, c.uid, "%s: the runtime is to use the CPUs %q", c.id, r.GetCpusetCpus())
		return
	}
	c.exclusive = wholeCPUs(m, spec)
	c.cpus, c.placedAt = cpus, j.sim.clock.uptime
	if !moves {
		c.memoryNodes, c.unlimitedCPU = memoryNodes(r.GetCpusetMems()), r.GetCpuQuota() < 0
	}
	if c.excused(j) {
		return
	}
	say := func(invariant, format string, args ...any) {
		j.broken(invariant, c.uid, "%s of %s, on CPUs %s and NUMA nodes %s: %s", c.id, m.Name, c.cpus, c.memoryNodes,
			fmt.Sprintf(format, args...))
	}
	switch {
	case !cpus.IsSubsetOf(n.all):
		say(wholeExclusive, "the machine has %s", n.all)
	case c.exclusive > 0 && cpus.Size() != c.exclusive:
		say(wholeExclusive, "it is to have %d exclusive CPUs", c.exclusive)
	case c.exclusive > 0 && !cpus.Intersection(n.reserved).IsEmpty():
		say(wholeExclusive, "%s are reserved", n.reserved)
	case c.exclusive > 0 != c.unlimitedCPU && !moves:
		say(wholeExclusive, "it is to have %d exclusive CPUs; no quota: %t", c.exclusive, c.unlimitedCPU)
	case c.exclusive == 0 && cpus.IsEmpty():
		say(sharedLeft, "it is not kept off any CPU")
	case c.exclusive == 0 && n.managers.GetCpuOptions().GetStrictReservation() && !cpus.IsSubsetOf(n.reserved) &&
		!cpus.Intersection(n.reserved).IsEmpty():
		say(sharedLeft, "%s are reserved strictly", n.reserved)
	case n.managers.GetStaticMemory() && !moves && guaranteed(m) == c.memoryNodes.IsEmpty():
		say(memoryOfNodes, "its pod is Guaranteed: %t", guaranteed(m))
	case n.managers.GetTopologyPolicy() == journaletv1.TopologyPolicy_TOPOLOGY_POLICY_SINGLE_NUMA_NODE &&
		c.exclusive > 0 && !j.lostIntents[c.intent] &&
		(n.nodesOf(cpus).Size() != 1 || !c.memoryNodes.IsSubsetOf(n.nodesOf(cpus))):
		say(onOneNode, "its CPUs are of the NUMA nodes %s", n.nodesOf(cpus))
	}
	if c.alive() {
		j.apart(c)
	}
}

// nodesOf returns the NUMA nodes of some CPUs.
func (n *managed) nodesOf(cpus cpuset.CPUSet) cpuset.CPUSet {
	var nodes []int
	for i, all := range n.nodes {
		if !all.Intersection(cpus).IsEmpty() {
			nodes = append(nodes, i)
		}
	}
	return cpuset.New(nodes...)
}

// excused reports whether nobody knows what a container has, until it is placed again: the record of its start is lost,
// or the runtime started or moved it for an agent that was gone.
func (c *container) excused(j *judge) bool {
	return j.lostIntents[c.intent] && c.placedAt <= j.lostRecordsAt || c.startedLate || c.placedLate
}

// leaves reports whether what a container has may be given to others while it is stopped: the runtime started it for an
// agent that was gone, or its pod was rejected or preempted after a lost journal.
func (j *judge) leaves(c *container) bool {
	h := j.history(c.uid)
	return c.startedLate || j.lostIntents[c.intent] && h.incarnation != 0 &&
		(h.rejectedAs == h.incarnation || h.preemptedAs == h.incarnation)
}

// apart: no two running containers have the same exclusive CPUs, and NUMA nodes have the memory that is given of them.
func (j *judge) apart(c *container) {
	n := j.sim.config.managed
	if n == nil || j.leaves(c) {
		return
	}
	given := make([]int64, 1<<len(n.memory))
	for _, o := range j.sim.world.objects {
		for _, x := range o.containers {
			if !x.alive() || j.leaves(x) {
				continue
			}
			if x.uid == c.uid && x.excused(j) {
				continue // its manifest changed while the journal was lost: two containers swap CPUs, one after the other
			}
			if both := c.cpus.Intersection(x.cpus); x != c && c.exclusive > 0 && x.exclusive > 0 && !both.IsEmpty() {
				j.broken(cpusExclusive, c.uid, "%s and %s of %s both have %s", c.id, x.id, x.uid, both)
			}
			if n.managers.GetStaticMemory() && !x.memoryNodes.IsEmpty() && !j.lostIntents[x.intent] {
				given[maskOf(x.memoryNodes)] += requestsOf(x.spec).memory
			}
		}
	}
	for mask := range given {
		var have, taken int64
		for node, bytes := range n.memory {
			if mask&(1<<node) != 0 {
				have += bytes
			}
		}
		for part, bytes := range given {
			if part&mask == part {
				taken += bytes
			}
		}
		if taken > have {
			j.broken(memoryOfNodes, c.uid, "with %s, running containers have %d of %d bytes of the NUMA nodes %b", c.id, taken,
				have, mask)
		}
	}
}

func maskOf(nodes cpuset.CPUSet) int {
	mask := 0
	for _, node := range nodes.List() {
		mask |= 1 << node
	}
	return mask
}

// rejectedStays: nothing of a rejected pod is started.
func (j *judge) rejectedStays(h *podHistory, c *container) {
	if h.rejectedAs != 0 && h.rejectedAs == h.incarnation && !j.lostIntents[c.intent] && !c.startedLate {
		j.broken(rejectedNever, c.uid, "%s starts", c.id)
	}
}

// refusals are the reasons of a pod that cannot have the exclusive resources that it requests.
var refusals = []string{"SMTAlignmentError", "TopologyAffinityError", "UnexpectedAdmissionError"}

// refused judges the refusal of a pod: its settings demand what is not there. The node decided on record cause: it did
// not know later ends.
func (j *judge) refused(cause uint64, k *journaletv1.AdmissionDecided, m *corev1.Pod) {
	n := j.sim.config.managed
	ok, policy := false, n.managers.GetTopologyPolicy()
	switch k.GetReason() {
	case refusals[0]:
		ok = n.managers.GetCpuOptions().GetFullCores() && (j.outOfCPUs(cause, k.GetUid(), m) ||
			slices.ContainsFunc(slices.Concat(m.Spec.InitContainers, m.Spec.Containers), func(c corev1.Container) bool {
				return wholeCPUs(m, &c)%n.threads != 0
			}))
	case refusals[1]:
		ok = policy == journaletv1.TopologyPolicy_TOPOLOGY_POLICY_RESTRICTED ||
			policy == journaletv1.TopologyPolicy_TOPOLOGY_POLICY_SINGLE_NUMA_NODE
	default:
		ok = n.managers.GetStaticMemory() || j.outOfCPUs(cause, k.GetUid(), m)
	}
	if !ok || !guaranteed(m) {
		j.broken(refusedRightly, k.GetUid(), "%s: %s; %v %s", k.GetReason(), k.GetMessage(), n.managers.GetCpuOptions(),
			policy)
	}
}

// outOfCPUs reports whether fewer CPUs are free than a pod may need: aligned containers do not always get the CPUs that
// an init container had, so that a pod may have more than it requests.
func (j *judge) outOfCPUs(cause uint64, uid string, m *corev1.Pod) bool {
	n, need := j.sim.config.managed, 0
	free := n.all.Difference(n.reserved)
	for other, h := range j.pods {
		if other != uid && (h.holdsShare || h.releasedBy > cause) {
			free = free.Difference(h.exclusive)
		}
		if other != uid && h.reserves(cause) {
			free = free.Difference(h.pendingAlone)
		}
	}
	for other, f := range j.exclusive.found {
		if other != uid && f.keeps(cause) {
			free = free.Difference(f.cpus)
		}
	}
	count := free.Size()
	if n.managers.GetCpuOptions().GetFullCores() {
		count = 0
		for _, core := range n.managers.GetTopology().GetCores() {
			whole := true
			for _, cpu := range core.GetCpus() {
				whole = whole && free.Contains(int(cpu))
			}
			if whole {
				count += n.threads
			}
		}
	}
	for _, c := range slices.Concat(m.Spec.InitContainers, m.Spec.Containers) {
		need += wholeCPUs(m, &c)
	}
	return need > count
}

// lostMeanwhile reports whether a pod that others were preempted for may still be rejected: a device that was reserved
// for it is not healthy any more, or its plugin went.
func (j *judge) lostMeanwhile(h *podHistory, reason string) bool {
	for _, d := range h.pendingDevices {
		if b := j.devices[d.GetResource()]; b != nil && b.changedBy > h.preemptingBy {
			return slices.Contains(refusals, reason) || reason == "OutOf"+d.GetResource()
		}
	}
	return false
}

// reserves reports whether others get nothing of what a pod waits for. The node decided on record cause.
func (h *podHistory) reserves(cause uint64) bool { return h.pending || h.pendedUntil > cause }

// keepsSize reports whether the resize of a pod can never be allocated: what containers of Guaranteed pods have
// exclusively is not resized.
func (n *managed) keepsSize(desired, allocated *corev1.Pod) bool {
	if n == nil || !guaranteed(desired) {
		return false
	}
	for _, c := range slices.Concat(desired.Spec.InitContainers, desired.Spec.Containers) {
		spec := findSpec(allocated, c.Name)
		if spec == nil {
			continue // the manifest is another incarnation's, which is not added yet
		}
		has, want := requestsOf(spec), requestsOf(&c)
		if has.cpu != want.cpu || n.managers.GetStaticMemory() && has.memory != want.memory {
			return true
		}
	}
	return false
}

// mixed returns the running containers that share CPUs, and have exclusive CPUs of another one, in the order of
// their appearance. Containers that nobody knows count only if strangers is set. A container that the runtime moved for
// an agent that was gone, maybe after a later agent had moved it, never counts: nothing shows such a move. Nor does a
// container that shares CPUs and that the runtime has lost track of: it cannot be moved.
func (s *sim) mixed(strangers bool) (all []*container) {
	var exclusive, shares []*container
	for _, c := range s.world.running() {
		switch {
		case c.placedLate || c.excused(s.judge) && !strangers, c.exclusive == 0 && c.state == unknown:
		case c.exclusive > 0:
			exclusive = append(exclusive, c)
		default:
			shares = append(shares, c)
		}
	}
	for _, c := range shares {
		if slices.ContainsFunc(exclusive, func(x *container) bool {
			return c.cpus.IsEmpty() || !c.cpus.Intersection(x.cpus).IsEmpty()
		}) {
			all = append(all, c)
		}
	}
	return all
}

// checkShared checks every few seconds for containers that share CPUs and do not move off the exclusive CPUs of others.
// Time when something hinders the agent does not count.
func (s *sim) checkShared() {
	b := &s.judge.exclusive
	if s.hindered() {
		b.since = map[string]time.Duration{}
	}
	now := map[string]time.Duration{}
	for _, c := range s.mixed(false) {
		at, before := b.since[c.id]
		if !before {
			at = s.clock.uptime
		}
		now[c.id] = at
		if d := s.clock.uptime - at; d > sharedMovesWithin {
			s.judge.broken(sharedLeft, c.uid, "%s has run on %s for %s, some of which others have exclusively", c.id, c.cpus, d)
		}
	}
	b.since = now
	s.clock.after(nil, sharedMovesWithin/10, s.checkShared)
}

// hindered reports whether something has kept the agent from moving containers since the last check.
func (s *sim) hindered() bool {
	b, w, now := &s.judge.exclusive, s.world, s.clock.uptime
	other := b.epoch != s.epoch || b.run != w.run
	b.epoch, b.run = s.epoch, w.run
	if other || s.agent == nil || !w.up || w.hungUntil > now || w.slowUntil > now || s.journal.stalledUntil > now ||
		b.failedAt > 0 && now < b.failedAt+s.config.maxBackOff+sharedMovesWithin {
		return true
	}
	for _, until := range s.agent.wedged {
		if until > now {
			return true
		}
	}
	return false
}

// judgePlaces: without faults nothing that runs has exclusive CPUs of another container, and each has what it is to.
func (s *sim) judgePlaces(say func(invariant, uid, format string, args ...any)) {
	n := s.config.managed
	if n == nil {
		return
	}
	for _, c := range s.mixed(true) {
		say(sharedLeft, c.uid, "%s shares %s, some of which others have exclusively", c.id, c.cpus)
	}
	taken := map[int]*container{}
	for _, o := range s.world.objects {
		for _, c := range o.containers {
			if c.exclusive == 0 || !c.alive() {
				continue
			}
			if c.cpus.Size() != c.exclusive || !c.cpus.Intersection(n.reserved).IsEmpty() {
				say(wholeExclusive, c.uid, "%s has %s, and is to have %d exclusive CPUs", c.id, c.cpus, c.exclusive)
			}
			for _, cpu := range c.cpus.List() {
				if x := taken[cpu]; x != nil {
					say(cpusExclusive, c.uid, "%s has CPU %d exclusively, and so has %s", c.id, cpu, x.id)
				}
				taken[cpu] = c
			}
		}
	}
}
