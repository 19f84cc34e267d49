package cgroup

import (
	"github.com/opencontainers/cgroups"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/journalet/journalet/actors/pod"
)

// Units of the CPU controller (kubelet: SharesPerCPU, MilliCPUToCPU, QuotaPeriod).
const (
	SharesPerCPU = 1024
	MilliPerCPU  = 1000
	// PeriodMicros is the time to which every quota is, in microseconds.
	PeriodMicros = 100_000
)

// Bounds of the CPU controller: of shares and weights and, in microseconds, of a quota, as the kernel has them (kubelet:
// MinShares, MaxShares, MinQuotaPeriod).
const (
	minShares = 2
	maxShares = 262144
	maxWeight = 10_000
	minQuota  = 1_000
)

// Values is what a cgroup holds its processes to. A zero is not written, so that a new cgroup has no such limit.
type Values struct {
	// Shares are CPU shares of cgroup v1, 2 to 262144; on v2 the weight that stands for them is written.
	Shares uint64
	// QuotaMicros is the CPU time in each PeriodMicros.
	QuotaMicros  int64
	PeriodMicros uint64
	MemoryBytes  int64
	Pids         int64
}

// OfNode are the values of the cgroup of all pods together: thousandths of a CPU, bytes of memory, processes. Zero bytes or processes set no
// bound.
func OfNode(milliCPU, memoryBytes, pids int64) Values {
	return Values{Shares: SharesOf(milliCPU), MemoryBytes: memoryBytes, Pids: pids}
}

// OfPod are the values of a pod's cgroup, from what is allocated to it (kubelet: ResourceConfigForPod). A limit of the sum counts only where
// the pod, or each of its containers, has one: one that has none may use what is there.
func OfPod(p *corev1.Pod) Values {
	all := resourcehelper.PodResourcesOptions{}
	requests, limits := resourcehelper.PodRequests(p, all), resourcehelper.PodLimits(p, all)
	v := Values{Shares: SharesOf(requests.Cpu().MilliValue())}
	switch pod.QOS(p) {
	case corev1.PodQOSBestEffort:
		return Values{Shares: minShares}
	case corev1.PodQOSGuaranteed:
		v.QuotaMicros, v.PeriodMicros, v.MemoryBytes = QuotaOf(limits.Cpu().MilliValue()), PeriodMicros, limits.Memory().Value()
	default:
		if hasLimit(p, corev1.ResourceCPU) {
			v.QuotaMicros, v.PeriodMicros = QuotaOf(limits.Cpu().MilliValue()), PeriodMicros
		}
		if hasLimit(p, corev1.ResourceMemory) {
			v.MemoryBytes = limits.Memory().Value()
		}
	}
	return v
}

// hasLimit tells whether a pod has a limit for a resource, or every one of its containers.
func hasLimit(p *corev1.Pod, of corev1.ResourceName) bool {
	if resourcehelper.IsPodLevelResourcesSet(p) {
		if q := p.Spec.Resources.Limits[of]; !q.IsZero() {
			return true
		}
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if q := list[i].Resources.Limits[of]; q.IsZero() {
				return false
			}
		}
	}
	return true
}

// SharesOf are the shares, 2 to 262144, that stand for thousandths of a CPU.
func SharesOf(milli int64) uint64 {
	return uint64(min(max(milli*SharesPerCPU/MilliPerCPU, minShares), maxShares))
}

// QuotaOf is the CPU time in each PeriodMicros, in microseconds, that thousandths of a CPU are: at least 1000, and 0, no bound, for none.
func QuotaOf(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*PeriodMicros/MilliPerCPU, minQuota)
}

// weightOf is the weight of cgroup v2, 1 to 10000, that stands for shares of v1 (KEP-2254).
func weightOf(shares uint64) uint64 {
	return min(1+(shares-minShares)*(maxWeight-1)/(maxShares-minShares), maxWeight)
}

// resources are the values as the library takes them.
func (v Values) resources(unified bool) *cgroups.Resources {
	r := &cgroups.Resources{
		SkipDevices: true, SkipFreezeOnSet: true,
		CpuQuota: v.QuotaMicros, CpuPeriod: v.PeriodMicros, Memory: v.MemoryBytes,
	}
	switch {
	case v.Shares == 0:
	case unified:
		r.CpuWeight = weightOf(v.Shares)
	default:
		r.CpuShares = v.Shares
	}
	if v.Pids > 0 {
		r.PidsLimit = &v.Pids
	}
	return r
}

// widened are the values that hold both before and after a change: of each the larger one, and none if one of them has none.
func widened(from, to Values) Values {
	wider := func(a, b int64) int64 {
		if a == 0 || b == 0 {
			return 0
		}
		return max(a, b)
	}
	out := to
	out.Shares = max(from.Shares, to.Shares)
	out.MemoryBytes = wider(from.MemoryBytes, to.MemoryBytes)
	if out.QuotaMicros = wider(from.QuotaMicros, to.QuotaMicros); out.QuotaMicros == 0 {
		out.PeriodMicros = 0
	}
	return out
}
