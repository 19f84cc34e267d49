package cri

import (
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Bounds of the CPU controller, as the kernel and the kubelet have them.
const (
	minCPUShares    = 2
	maxCPUShares    = 262144
	sharesPerCPU    = 1024
	milliPerCPU     = 1000
	cpuPeriodMicros = 100_000
	minQuotaMicros  = 1_000
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

func sharesOf(milli int64) int64 {
	return min(max(milli*sharesPerCPU/milliPerCPU, minCPUShares), maxCPUShares)
}

func quotaOf(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*cpuPeriodMicros/milliPerCPU, minQuotaMicros)
}

// linuxResources turns requests and limits into cgroup settings. A CPU request that is not given is the limit.
func (d *Driver) linuxResources(requests, limits corev1.ResourceList) *runtimeapi.LinuxContainerResources {
	cpu := requests.Cpu().MilliValue()
	if _, ok := requests[corev1.ResourceCPU]; !ok {
		cpu = limits.Cpu().MilliValue()
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          sharesOf(cpu),
		CpuPeriod:          cpuPeriodMicros,
		CpuQuota:           quotaOf(limits.Cpu().MilliValue()),
		MemoryLimitInBytes: limits.Memory().Value(),
	}
	if d.opts.CgroupV2 {
		// All processes of a container die together, so that none limps on without the others.
		r.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return r
}

func (d *Driver) containerResources(pod *corev1.Pod, container *corev1.Container) *runtimeapi.LinuxContainerResources {
	r := d.linuxResources(container.Resources.Requests, container.Resources.Limits)
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
	switch qosClass(pod) {
	case corev1.PodQOSGuaranteed:
		return oomGuaranteed
	case corev1.PodQOSBestEffort:
		return oomBestEffort
	}
	score := burstableScore(container, capacity)
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == container.Name && isSidecar(c) {
			// A sidecar must not die before the first of those that it serves, which is the one that asked for least.
			first := int64(0)
			for j := range pod.Spec.Containers {
				first = max(first, burstableScore(&pod.Spec.Containers[j], capacity))
			}
			score = min(score, first)
		}
	}
	return score
}

func burstableScore(container *corev1.Container, capacity int64) int64 {
	if capacity <= 0 {
		return oomMaxBurstable
	}
	request := min(container.Resources.Requests.Memory().Value(), capacity)
	score := oomBestEffort - oomBestEffort*request/capacity
	return min(max(score, oomMinBurstable), oomMaxBurstable)
}

// qosClass is the class that the pod's own requests and limits give it.
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	asked, guaranteed := false, true
	see := func(r corev1.ResourceRequirements) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				asked = true
			}
			// A request that is not given is the limit.
			if _, given := r.Requests[name]; limit.IsZero() || given && request.Cmp(limit) != 0 {
				guaranteed = false
			}
		}
	}
	if pod.Spec.Resources != nil {
		see(*pod.Spec.Resources)
	} else {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				see(list[i].Resources)
			}
		}
	}
	switch {
	case !asked:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
