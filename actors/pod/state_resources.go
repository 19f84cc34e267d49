package pod

import (
	"cmp"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// containerResources are the CPU and memory of one container (ADR 014), with the limits of the pod as a whole where it
// has none of its own. What is desired differs from what is allocated
// for the pod as a whole only: see Actor.
type containerResources struct {
	// allocated is what the node has granted.
	allocated *journaletv1.Resources
	// applied is what the newest instance was last given.
	applied *journaletv1.Resources
	// reported is what the runtime reported after a resize, or of an instance without a record of its start; else nil.
	reported *journaletv1.Resources
}

// resourcesOf returns the resources of a container of the effective manifest.
func (a *Actor) resourcesOf(c *corev1.Container) containerResources {
	r, allocated := a.record(c.Name), resources.OfContainer(a.manifest, c)
	return containerResources{allocated: allocated, applied: cmp.Or(r.GetApplied(), allocated), reported: r.GetReported()}
}

// setApplied records what a container was last given, and drops the record where that is what is allocated.
func (a *Actor) setApplied(r *journaletv1.ContainerRecord, applied *journaletv1.Resources) {
	if c := a.spec(r.GetName()); c != nil && resources.Equal(applied, resources.OfContainer(a.manifest, c)) {
		applied = nil
	}
	r.Applied = applied
}

// setPodApplied records what the pod as a whole was last given, and drops the record where that is what is allocated.
// Only Evolve may call it.
func (a *Actor) setPodApplied(applied *journaletv1.Resources) {
	if resources.Equal(applied, resources.OfPod(a.manifest)) {
		applied = nil
	}
	a.resizing().Applied = applied
}

// steady reports whether a container runs and is neither being started nor being stopped.
func (a *Actor) steady(name string) bool {
	r := a.record(name)
	cur := r.GetCurrent()
	return running(cur) && !a.wasStopped(cur) && r.GetTermination().GetContainerId() != cur.GetId() &&
		!a.calling(forContainer(name))
}

// restartsToResize reports whether a running container has to be restarted to get its allocated resources.
func (a *Actor) restartsToResize(c *corev1.Container) bool {
	has := a.resourcesOf(c)
	return resources.Restarts(c, has.applied, has.allocated)
}

// beingStarted reports whether an instance of a container is created, or is being created or started. It has the
// resources that were allocated when it was created.
func (a *Actor) beingStarted(r *journaletv1.ContainerRecord) bool {
	return a.created(r) != nil || a.calling(startOf(r.GetName()))
}

// podUnapplied reports whether the pod's sandbox runs without what is allocated to the pod as a whole, or may do so.
func (a *Actor) podUnapplied() bool {
	r := a.state.GetResize()
	return (r.GetApplied() != nil || r.GetSandboxInDoubt()) && a.state.GetSandboxId() != ""
}

// unapplied reports whether the pod as a whole, or a container that runs or is about to, does not have its allocated
// resources.
func (a *Actor) unapplied() bool {
	if a.podUnapplied() {
		return true
	}
	for c := range a.all() {
		r := a.record(c.Name)
		if r.GetApplied() != nil && (alive(r.GetCurrent()) || r.GetReplacing() || a.beingStarted(r)) {
			return true
		}
	}
	return false
}

// enforcedLimit returns the limit of CPU that a runtime reports of a container with a limit, in thousandths of a CPU;
// 0: none. The shorter the period, the larger the least limit, and the coarser what lies between.
func enforcedLimit(by *journaletv1.CpuQuota, millis int64) int64 {
	period := cmp.Or(by.GetPeriod().AsDuration().Microseconds(), resources.PeriodMicros)
	switch {
	case by.GetOff() || millis == 0:
		return 0
	case millis > math.MaxInt64/period: // more than any machine has
		return millis
	}
	return resources.QuotaMicros(millis, period) * resources.MilliPerCPU / period
}

// The bounds of a cgroup's CPU values. All values at or below the least ones are the same to the kernel: the allocated
// value is reported then (kubelet: cm.MinShares and cm.MinMilliCPULimit).
const (
	leastCPURequestMillis = 2
	leastCPULimitMillis   = 10
	// mostCPURequestMillis is what the most CPU shares of a cgroup stand for (kernel: 262144 shares, 1024 a CPU).
	mostCPURequestMillis = 256_000
)

// appliedBy infers what a container was given from what the runtime reports of it. The runtime reports no memory
// request, and it makes no difference to what runs: the allocated one is taken.
func (a *Actor) appliedBy(c *corev1.Container, reported *journaletv1.Resources) *journaletv1.Resources {
	applied := resources.OfContainer(a.manifest, c)
	shares := func(millis int64) int64 { return min(max(millis, leastCPURequestMillis), mostCPURequestMillis) }
	sharesOfRequest := shares(applied.GetCpuRequestMillis())
	if applied.GetCpuRequestMillis() == 0 && reported.GetCpuRequestMillis() == shares(applied.GetCpuLimitMillis()) {
		// A container without a CPU request is created with shares by its limit.
		sharesOfRequest = reported.GetCpuRequestMillis()
	}
	if reported.GetCpuRequestMillis() != sharesOfRequest {
		applied.CpuRequestMillis = reported.GetCpuRequestMillis()
	}
	if reported.GetCpuLimitMillis() != enforcedLimit(a.state.GetCpuQuota(), applied.GetCpuLimitMillis()) {
		applied.CpuLimitMillis = reported.GetCpuLimitMillis()
	}
	applied.MemoryLimitBytes = reported.GetMemoryLimitBytes()
	return applied
}
