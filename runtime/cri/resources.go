package cri

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podactor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// OOM scores of the kubelet. A Burstable container's lies between the two bounds, by its memory request.
const (
	oomGuaranteed   = -997
	oomBestEffort   = 1000
	oomMinBurstable = 1000 + oomGuaranteed
	oomMaxBurstable = oomBestEffort - 1
)

// classNodeCritical is the priority class of the pods that a node needs.
const classNodeCritical = "system-node-critical"

// systemCritical is the lowest priority of a pod that is part of the system (scheduling API: SystemCriticalPriority).
const systemCritical = 2_000_000_000

// settings turns requests and limits into cgroup settings. A missing CPU request defaults to the limit.
func (o *Resources) settings(requests, limits corev1.ResourceList) *runtimeapi.LinuxContainerResources {
	cpu := resources.Millis(requests.Cpu())
	if _, ok := requests[corev1.ResourceCPU]; !ok {
		cpu = resources.Millis(limits.Cpu())
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          int64(cgroup.SharesOf(cpu)),
		MemoryLimitInBytes: resources.Bytes(limits.Memory()),
	}
	r.CpuQuota, r.CpuPeriod = o.CPUQuota.Of(resources.Millis(limits.Cpu()))
	if o.CgroupV2 {
		r.Unified = map[string]string{}
		if !o.SingleProcessOOMKill {
			// The kernel kills all processes of a container together, so that none runs on without the others.
			r.Unified["memory.oom.group"] = "1"
		}
	}
	return r
}

// ofContainer returns the settings of a container's cgroup.
func (o *Resources) ofContainer(pod *corev1.Pod, container *corev1.Container) *runtimeapi.LinuxContainerResources {
	r := o.settings(container.Resources.Requests, inherited(pod, container))
	r.OomScoreAdj = oomScore(pod, container, o.MemoryCapacity)
	r.HugepageLimits = o.hugePageLimits(pod, container)
	if o.CgroupV2 && o.MemoryThrottling > 0 {
		r.Unified["memory.high"] = o.memoryHigh(pod, container)
	}
	if o.CgroupV2 && o.ReserveMemory {
		least, low := cgroup.ReservedMemory(pod, resources.Bytes(container.Resources.Requests.Memory()))
		// A zero ends what was before a resize.
		r.Unified["memory.min"], r.Unified["memory.low"] = strconv.FormatInt(least, 10), strconv.FormatInt(low, 10)
	}
	switch {
	case !o.Cgroups.Swap:
	case o.CgroupV2:
		r.Unified["memory.swap.max"] = strconv.FormatInt(o.swapLimit(pod, container), 10)
	default:
		// The limit of memory and swap together.
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
	}
	return r
}

// placed adds where a container runs. A container with exclusive CPUs has no CPU quota: it would be throttled on CPUs
// that nobody else uses (kubelet: the same; where no limit of CPU is enforced, it sends neither).
func placed(r *runtimeapi.LinuxContainerResources, p *journaletv1.Placement) *runtimeapi.LinuxContainerResources {
	if p == nil {
		return r
	}
	r.CpusetCpus, r.CpusetMems = p.GetCpus(), nodeList(p.GetMemoryNodes())
	if p.GetExclusive() && r.GetCpuPeriod() != 0 {
		r.CpuQuota = -1
	}
	return r
}

// nodeList returns NUMA nodes as the kernel takes them.
func nodeList(nodes []uint32) string {
	var all []string
	for _, n := range nodes {
		all = append(all, strconv.FormatUint(uint64(n), 10))
	}
	return strings.Join(all, ",")
}

// hugePageLimits returns the limit of each size of huge pages that the node has: the container's, else the pod's, else
// 0.
func (o *Resources) hugePageLimits(pod *corev1.Pod, container *corev1.Container) []*runtimeapi.HugepageLimit {
	lists := []corev1.ResourceList{container.Resources.Limits}
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		lists = slices.Insert(lists, 0, pod.Spec.Resources.Limits)
	}
	limits := cgroup.HugePages(lists...)
	var out []*runtimeapi.HugepageLimit
	for _, size := range o.Cgroups.HugePages {
		out = append(out, &runtimeapi.HugepageLimit{PageSize: size, Limit: limits[size]})
	}
	return out
}

// swapLimit returns how much a container may swap, in bytes (KEP-2400). With LimitedSwap, a container of a Burstable
// pod that requests memory, and not all of its limit, gets its share. A pod of a system priority class never swaps.
func (o *Resources) swapLimit(pod *corev1.Pod, container *corev1.Container) int64 {
	request, limit := container.Resources.Requests.Memory(), container.Resources.Limits.Memory()
	node := o.MemoryCapacity
	bytes := resources.Bytes(request)
	critical := pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCritical
	if !o.LimitedSwap || critical || podactor.QOS(pod) != corev1.PodQOSBurstable ||
		request.Cmp(*limit) == 0 || node <= 0 || bytes > node {
		return 0
	}
	return int64(float64(bytes) / float64(node) * float64(o.SwapCapacity))
}

// oomScore returns a container's oom_score_adj: the larger its request's share of the node's memory, the later it is
// killed. With an unknown capacity (0), every Burstable container gets the score of one without a request.
func oomScore(pod *corev1.Pod, container *corev1.Container, capacity int64) int64 {
	if pod.Spec.PriorityClassName == classNodeCritical {
		return oomGuaranteed
	}
	switch podactor.QOS(pod) {
	case corev1.PodQOSGuaranteed:
		return oomGuaranteed
	case corev1.PodQOSBestEffort:
		return oomBestEffort
	}
	share := unrequested(pod)
	score := burstableScore(container, share, capacity)
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == container.Name && isSidecar(c) {
			// A sidecar must not be killed before the first container that it serves, which is the one with the
			// smallest request: its score is at most the highest of theirs.
			first := int64(0)
			for j := range pod.Spec.Containers {
				first = max(first, burstableScore(&pod.Spec.Containers[j], share, capacity))
			}
			score = min(score, first)
		}
	}
	return score
}

// inherited returns a container's limits, and the pod's for CPU and memory where the container has none.
func inherited(pod *corev1.Pod, container *corev1.Container) corev1.ResourceList {
	limits := container.Resources.Limits
	if !resourcehelper.IsPodLevelResourcesSet(pod) {
		return limits
	}
	limits = limits.DeepCopy()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		own, podLimit := limits[name], pod.Spec.Resources.Limits[name]
		if !own.IsZero() || podLimit.IsZero() {
			continue
		}
		if limits == nil {
			limits = corev1.ResourceList{}
		}
		limits[name] = podLimit.DeepCopy()
	}
	return limits
}

// unrequested returns a container's share, in bytes, of the memory that the pod requests beyond its containers'
// requests (KEP-2837).
func unrequested(pod *corev1.Pod) int64 {
	n := int64(len(pod.Spec.Containers) + len(pod.Spec.InitContainers))
	if n == 0 || !resourcehelper.IsPodLevelRequestsSet(pod) {
		return 0
	}
	containers := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	return max(0, resources.Bytes(pod.Spec.Resources.Requests.Memory())-resources.Bytes(containers.Memory())) / n
}

// burstableScore returns the score of a container whose memory request counts as larger by more bytes.
func burstableScore(container *corev1.Container, more, capacity int64) int64 {
	if capacity <= 0 {
		return oomMaxBurstable
	}
	// Each part is cut before they are added: their sum might not fit.
	request := min(min(resources.Bytes(container.Resources.Requests.Memory()), capacity)+min(more, capacity), capacity)
	score := oomBestEffort - oomBestEffort*request/capacity
	return min(max(score, oomMinBurstable), oomMaxBurstable)
}
