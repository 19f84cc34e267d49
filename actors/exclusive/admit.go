package exclusive

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Reasons of a refusal, as the kubelet names them.
const (
	ReasonSMTAlignment = "SMTAlignmentError"
	ReasonTopology     = "TopologyAffinityError"
	ReasonUnexpected   = "UnexpectedAdmissionError"
)

// Refusal is why a pod cannot have the exclusive resources that it requests: the reason and message of its status.
type Refusal struct{ Reason, Message string }

func unexpected(err error) *Refusal {
	return &Refusal{ReasonUnexpected, fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)}
}

var notAligned = &Refusal{ReasonTopology, "Resources cannot be allocated with Topology locality"}

// Pod holds the exclusive resources of one pod's containers.
type Pod []*journaletv1.ExclusiveContainer

// Requests returns which exclusive resources a pod's containers may get, in the order of their admission: init
// containers first. There is nothing in it for a pod that is not Guaranteed, or that has resources of its own: its
// containers share.
func Requests(p *corev1.Pod, qos journaletv1.QosClass) *journaletv1.ExclusiveRequests {
	if p == nil || qos != journaletv1.QosClass_QOS_CLASS_GUARANTEED || resourcehelper.IsPodLevelResourcesSet(p) {
		return nil
	}
	return OfContainers(p)
}

// OfContainers returns what the containers of a Guaranteed pod request, also where the pod has got resources of its own
// since it was admitted.
func OfContainers(p *corev1.Pod) *journaletv1.ExclusiveRequests {
	out := new(journaletv1.ExclusiveRequests)
	add := func(c *corev1.Container, init bool) {
		r := &journaletv1.ExclusiveRequest{Container: c.Name, Init: init}
		if init && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			r.Init, r.Sidecar = false, true
		}
		// A limit without a request is the request: who reads manifests sets that default.
		r.MilliCpu = resources.Millis(c.Resources.Requests.Cpu())
		if bytes := resources.Bytes(c.Resources.Requests.Memory()); bytes > 0 {
			r.Memory = append(r.Memory, &journaletv1.HugePages{Bytes: bytes})
		}
		r.Memory = append(r.Memory, resources.HugePages(c.Resources.Requests)...)
		out.Containers = append(out.Containers, r)
	}
	for i := range p.Spec.InitContainers {
		add(&p.Spec.InitContainers[i], true)
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i], false)
	}
	return out
}

// wholeCPUs returns how many exclusive CPUs a container is to have; 0 if its request is not a whole number.
func wholeCPUs(r *journaletv1.ExclusiveRequest) int {
	if r.GetMilliCpu()%1000 != 0 {
		return 0
	}
	return int(min(r.GetMilliCpu()/1000, maxCPU))
}

// admission is the admission of one pod.
type admission struct {
	s      *Settings
	cpus   *cpuState    // nil: CPUs are not given out
	memory *memoryState // nil: memory is not given out
}

// Admit returns the exclusive resources that a pod's containers get where other pods, in the order of their admission,
// have these. Its devices, nil for none, are aligned with the rest, and taken container by container.
func (s *Settings) Admit(requests *journaletv1.ExclusiveRequests, taken []Pod, devices Devices) (Pod, *Refusal) {
	if s == nil {
		return nil, nil
	}
	if devices == nil {
		devices = noDevices{}
	}
	a := &admission{s: s}
	if s.managers.GetStaticCpus() {
		a.cpus = &cpuState{s: s, shared: s.Shared(taken)}
	}
	if s.managers.GetStaticMemory() {
		a.memory = s.newMemory(taken)
	}
	list := requests.GetContainers()
	if list == nil {
		list = devices.Containers()
	}
	var hint Hint
	var ok bool
	if s.managers.GetPodScope() {
		if hint, ok = s.merge(a.hints(ofPod(list), devices.PodRequests())); !ok {
			return nil, notAligned
		}
	}
	var out Pod
	for _, r := range list {
		if !s.managers.GetPodScope() {
			if hint, ok = s.merge(a.hints(r, devices.Requests(r.GetContainer()))); !ok {
				return nil, notAligned
			}
		}
		c, refusal := a.allocate(r, hint)
		if refusal != nil {
			return nil, refusal
		}
		devices.Take(r.GetContainer(), hint.Nodes)
		if c.GetCpus() != "" || len(c.GetMemoryNodes()) > 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

// hints returns the hints for what a container requests, with its devices. A resource that is not requested, or not
// given out, has no preference.
func (a *admission) hints(r *journaletv1.ExclusiveRequest, devices []DeviceRequest) []Hints {
	if a.s.managers.GetTopologyPolicy() == journaletv1.TopologyPolicy_TOPOLOGY_POLICY_UNSPECIFIED {
		return nil
	}
	all := a.s.deviceHints(devices)
	if a.cpus != nil {
		all = append(all, a.cpus.hints(wholeCPUs(r)))
	}
	if a.memory != nil && len(r.GetMemory()) > 0 {
		all = append(all, a.memory.forTopology(r.GetMemory())...)
	}
	return all
}

func (a *admission) allocate(r *journaletv1.ExclusiveRequest, hint Hint) (*journaletv1.ExclusiveContainer, *Refusal) {
	c := &journaletv1.ExclusiveContainer{Container: r.GetContainer()}
	if n := wholeCPUs(r); a.cpus != nil && n > 0 {
		got, refusal := a.cpus.allocate(n, hint)
		if refusal != nil {
			return nil, refusal
		}
		c.Cpus = got.String()
		if r.GetInit() {
			a.cpus.reusable = a.cpus.reusable.Union(got)
		} else {
			a.cpus.reusable = a.cpus.reusable.Difference(got)
		}
	}
	if a.memory != nil && len(r.GetMemory()) > 0 {
		if refusal := a.memory.allocate(r, c, hint); refusal != nil {
			return nil, refusal
		}
	}
	return c, nil
}

// ofPod returns what a pod needs as a whole: its containers and sidecars together, or what an init container needs
// beside the sidecars before it, if that is more.
func ofPod(list []*journaletv1.ExclusiveRequest) *journaletv1.ExclusiveRequest {
	type amounts struct{ init, sidecars, main int64 }
	var cpus amounts
	memory := map[int64]*amounts{}
	add := func(a *amounts, r *journaletv1.ExclusiveRequest, n int64) {
		switch {
		case r.GetInit():
			a.init = max(a.init, a.sidecars+n)
		case r.GetSidecar():
			a.sidecars += n
		default:
			a.main += n
		}
	}
	var pages []int64 // the page sizes that a main container requests, as in the kubelet
	for _, r := range list {
		add(&cpus, r, int64(wholeCPUs(r)))
		for _, h := range r.GetMemory() {
			if memory[h.GetPageBytes()] == nil {
				memory[h.GetPageBytes()] = new(amounts)
			}
			a := memory[h.GetPageBytes()]
			if !r.GetInit() && !r.GetSidecar() && a.main == 0 {
				pages = append(pages, h.GetPageBytes())
			}
			add(a, r, h.GetBytes())
		}
	}
	out := &journaletv1.ExclusiveRequest{MilliCpu: 1000 * max(cpus.init, cpus.sidecars+cpus.main)}
	for _, page := range pages {
		a := memory[page]
		out.Memory = append(out.Memory, &journaletv1.HugePages{PageBytes: page, Bytes: max(a.init, a.sidecars+a.main)})
	}
	return out
}

// CPUs returns the exclusive CPUs of a pod's containers, together.
func (p Pod) CPUs() cpuset.CPUSet {
	all := cpuset.New()
	for _, c := range p {
		all = all.Union(Parse(c.GetCpus()))
	}
	return all
}

// Of returns a container's exclusive resources; nil: it has none.
func (p Pod) Of(container string) *journaletv1.ExclusiveContainer {
	for _, c := range p {
		if c.GetContainer() == container {
			return c
		}
	}
	return nil
}
