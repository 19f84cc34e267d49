package cri

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podactor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// OOM scores of the kubelet. Between the two of Burstable lies what a container's memory request earns it.
const (
	oomGuaranteed   = -997
	oomBestEffort   = 1000
	oomMinBurstable = 1000 + oomGuaranteed
	oomMaxBurstable = oomBestEffort - 1
)

// classNodeCritical is the priority class of what a node cannot do without.
const classNodeCritical = "system-node-critical"

// linuxResources turns requests and limits into cgroup settings. A CPU request that is not given is the limit.
func (d *Driver) linuxResources(requests, limits corev1.ResourceList) *runtimeapi.LinuxContainerResources {
	cpu := requests.Cpu().MilliValue()
	if _, ok := requests[corev1.ResourceCPU]; !ok {
		cpu = limits.Cpu().MilliValue()
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          int64(cgroup.SharesOf(cpu)),
		CpuPeriod:          cgroup.PeriodMicros,
		CpuQuota:           cgroup.QuotaOf(limits.Cpu().MilliValue()),
		MemoryLimitInBytes: limits.Memory().Value(),
	}
	if d.opts.CgroupV2 {
		// All processes of a container die together, so that none limps on without the others.
		r.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return r
}

func (d *Driver) containerResources(pod *corev1.Pod, container *corev1.Container) *runtimeapi.LinuxContainerResources {
	r := d.linuxResources(container.Resources.Requests, inherited(pod, container))
	r.OomScoreAdj = oomScore(pod, container, d.opts.MemoryCapacity)
	for _, size := range d.opts.Cgroups.HugePages {
		r.HugepageLimits = append(r.HugepageLimits, &runtimeapi.HugepageLimit{PageSize: size}) // none: no pod may ask for them yet
	}
	switch {
	case !d.opts.Cgroups.Swap:
	case d.opts.CgroupV2:
		r.Unified["memory.swap.max"] = "0"
	default:
		// The limit of memory and swap together.
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
	}
	return r
}

// oomScore is a container's oom_score_adj: the larger a part of the node's memory it asked for, the later it dies.
// An unknown capacity (0) gives every Burstable container the score of one that asked for nothing.
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
			// A sidecar must not die before the first of those that it serves, which is the one that asked for least.
			first := int64(0)
			for j := range pod.Spec.Containers {
				first = max(first, burstableScore(&pod.Spec.Containers[j], share, capacity))
			}
			score = min(score, first)
		}
	}
	return score
}

// inherited are a container's limits, and those of the pod for CPU and memory that it has none for.
func inherited(pod *corev1.Pod, container *corev1.Container) corev1.ResourceList {
	limits := container.Resources.Limits
	if !resourcehelper.IsPodLevelResourcesSet(pod) {
		return limits
	}
	limits = limits.DeepCopy()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		own, of := limits[name], pod.Spec.Resources.Limits[name]
		if !own.IsZero() || of.IsZero() {
			continue
		}
		if limits == nil {
			limits = corev1.ResourceList{}
		}
		limits[name] = of.DeepCopy()
	}
	return limits
}

// unrequested is a container's part of the memory, in bytes, that a pod asks for beyond what its containers do (KEP-2837).
func unrequested(pod *corev1.Pod) int64 {
	n := int64(len(pod.Spec.Containers) + len(pod.Spec.InitContainers))
	if n == 0 || !resourcehelper.IsPodLevelRequestsSet(pod) {
		return 0
	}
	containers := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	return max(0, pod.Spec.Resources.Requests.Memory().Value()-containers.Memory().Value()) / n
}

// burstableScore is the score of a container that asks for so many bytes of memory more than it says.
func burstableScore(container *corev1.Container, more, capacity int64) int64 {
	if capacity <= 0 {
		return oomMaxBurstable
	}
	request := min(container.Resources.Requests.Memory().Value()+more, capacity)
	score := oomBestEffort - oomBestEffort*request/capacity
	return min(max(score, oomMinBurstable), oomMaxBurstable)
}
