package cgroup

import (
	"cmp"
	"math"
	"os"
	"strconv"

	"github.com/opencontainers/cgroups"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
)

// SharesPerCPU is the unit of shares (kubelet: SharesPerCPU).
const SharesPerCPU = 1024

// Bounds of the CPU controller for shares and weights, as the kernel has them (kubelet: MinShares, MaxShares).
const (
	minShares = 2
	maxShares = 262144
	maxWeight = 10_000
)

// CPUQuota is how limits of CPU are enforced (kubelet: cpuCFSQuota, cpuCFSQuotaPeriod). The zero value is the kubelet's
// default: within each resources.PeriodMicros.
type CPUQuota struct {
	// Off: none is enforced.
	Off bool
	// Period is in microseconds, 1000 to 1000000; 0: resources.PeriodMicros.
	Period int64
}

// Of returns the CPU time in each period for thousandths of a CPU, and the period, both in microseconds. The time is at
// least 1000, and 0, no limit, for 0. Both are 0 where no limit is enforced.
func (q CPUQuota) Of(milli int64) (quota, period int64) {
	if q.Off {
		return 0, 0
	}
	period = cmp.Or(q.Period, resources.PeriodMicros)
	switch {
	case milli == 0:
		return 0, period
	case milli <= math.MaxInt64/period:
		return resources.QuotaMicros(milli, period), period
	}
	return min(milli/resources.MilliPerCPU, math.MaxInt64/period) * period, period // the product must fit
}

// unlimited ends an earlier quota.
const unlimited = -1

// Values are the limits of a cgroup. A zero is not written, so a new cgroup has no such limit.
type Values struct {
	// Shares are CPU shares of cgroup v1, 2 to 262144; on v2 the corresponding weight is written.
	Shares uint64
	// QuotaMicros is the CPU time in each PeriodMicros; -1 ends an earlier quota.
	QuotaMicros  int64
	PeriodMicros uint64
	MemoryBytes  int64
	// MemoryHigh is the memory use at which the kernel starts to throttle, on cgroup v2; -1 ends an earlier value.
	MemoryHigh int64
	Pids       int64
	// Reserved writes, on cgroup v2, the memory that the kernel does not reclaim, also if it is 0.
	Reserved bool
	// MemoryMin is never reclaimed, MemoryLow only if there is nothing else.
	MemoryMin, MemoryLow int64
}

// unthrottled ends an earlier MemoryHigh.
const unthrottled = -1

// OfNode returns the values of the cgroup of all pods together, from thousandths of a CPU, bytes of memory and
// processes. Zero bytes or processes set no limit.
func OfNode(milliCPU, memoryBytes, pids int64) Values {
	return Values{Shares: SharesOf(milliCPU), MemoryBytes: memoryBytes, Pids: pids}
}

// OfPod returns the values of a pod's cgroup, from its allocated resources (kubelet: ResourceConfigForPod). The pod is
// limited only if it or every container has a limit: a container without one may use what is there.
func OfPod(p *corev1.Pod, cpu CPUQuota) Values {
	all := resourcehelper.PodResourcesOptions{}
	requests, limits := resourcehelper.PodRequests(p, all), resourcehelper.PodLimits(p, all)
	v := Values{Shares: SharesOf(resources.Millis(requests.Cpu()))}
	limitCPU := func() {
		quota, period := cpu.Of(resources.Millis(limits.Cpu()))
		if v.QuotaMicros, v.PeriodMicros = quota, uint64(period); cpu.Off {
			v.QuotaMicros = unlimited // the cgroup may be of a time when limits were enforced
		}
	}
	switch pod.QOS(p) {
	case corev1.PodQOSBestEffort:
		return Values{Shares: minShares}
	case corev1.PodQOSGuaranteed:
		limitCPU()
		v.MemoryBytes = resources.Bytes(limits.Memory())
	default:
		if hasLimit(p, corev1.ResourceCPU) {
			limitCPU()
		}
		if hasLimit(p, corev1.ResourceMemory) {
			v.MemoryBytes = resources.Bytes(limits.Memory())
		}
	}
	return v
}

// highOf returns the memory use at which the kernel starts to throttle a pod as a whole (KEP-2570). For a pod without
// pod-level resources or without a memory limit, it returns unthrottled.
func highOf(p *corev1.Pod, factor float64) int64 {
	if !resourcehelper.IsPodLevelResourcesSet(p) || !hasLimit(p, corev1.ResourceMemory) {
		return unthrottled
	}
	all := resourcehelper.PodResourcesOptions{}
	requests, limits := resourcehelper.PodRequests(p, all), resourcehelper.PodLimits(p, all)
	high := resources.MemoryHigh(resources.Bytes(requests.Memory()), resources.Bytes(limits.Memory()), factor,
		int64(os.Getpagesize()))
	if high == 0 {
		return unthrottled
	}
	return high
}

// ReservedMemory returns which of the requested bytes of a pod, or of a container of it, are never reclaimed, and which
// only if there is nothing else (KEP-2570, TieredReservation): all of a Guaranteed pod's, and all of others'.
func ReservedMemory(p *corev1.Pod, requested int64) (least, low int64) {
	if pod.QOS(p) == corev1.PodQOSGuaranteed {
		return requested, 0
	}
	return 0, requested
}

// hasLimit reports whether a pod, or every one of its containers, has a limit for a resource.
func hasLimit(p *corev1.Pod, resourceName corev1.ResourceName) bool {
	if resourcehelper.IsPodLevelResourcesSet(p) {
		if q := p.Spec.Resources.Limits[resourceName]; !q.IsZero() {
			return true
		}
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if q := list[i].Resources.Limits[resourceName]; q.IsZero() {
				return false
			}
		}
	}
	return true
}

// SharesOf returns the shares, 2 to 262144, for thousandths of a CPU.
func SharesOf(milli int64) uint64 {
	milli = min(milli, maxShares) // more than that many CPUs have the largest shares too, and the product must fit
	return uint64(min(max(milli*SharesPerCPU/resources.MilliPerCPU, minShares), maxShares))
}

// weightOf returns the weight of cgroup v2, 1 to 10000, for shares of v1 (KEP-2254).
func weightOf(shares uint64) uint64 {
	return min(1+(shares-minShares)*(maxWeight-1)/(maxShares-minShares), maxWeight)
}

// resources returns the values for the cgroups library.
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
	if unified {
		r.Unified = v.memory()
	}
	if v.Pids > 0 {
		r.PidsLimit = &v.Pids
	}
	return r
}

// memory returns the files of cgroup v2 that the cgroups library has no fields for, nil for none.
func (v Values) memory() map[string]string {
	out := map[string]string{}
	switch v.MemoryHigh {
	case 0:
	case unthrottled:
		out["memory.high"] = "max"
	default:
		out["memory.high"] = strconv.FormatInt(v.MemoryHigh, 10)
	}
	if v.Reserved {
		out["memory.min"], out["memory.low"] = strconv.FormatInt(v.MemoryMin, 10), strconv.FormatInt(v.MemoryLow, 10)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// widened returns the limits that hold both before and after a change: the larger of each, and none if one is missing.
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
	switch {
	case to.MemoryHigh == 0:
	case from.MemoryHigh <= 0 || to.MemoryHigh < 0:
		out.MemoryHigh = unthrottled // one of the two is not throttled, or not known
	default:
		out.MemoryHigh = max(from.MemoryHigh, to.MemoryHigh)
	}
	if to.QuotaMicros < 0 {
		return out
	}
	if out.QuotaMicros = wider(quotaIn(from, to.PeriodMicros), to.QuotaMicros); out.QuotaMicros == 0 {
		out.PeriodMicros = 0
	}
	return out
}

// quotaIn returns the quota of a cgroup as it would be with another period, rounded up.
func quotaIn(v Values, period uint64) int64 {
	if v.QuotaMicros <= 0 || v.PeriodMicros == 0 || v.PeriodMicros == period {
		return max(0, v.QuotaMicros)
	}
	return int64(math.Ceil(float64(v.QuotaMicros) / float64(v.PeriodMicros) * float64(period)))
}
