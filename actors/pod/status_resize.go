package pod

import (
	"cmp"
	"maps"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// resizeConditions returns the conditions of a resize, none for a pod that has terminated.
func (a *Actor) resizeConditions() []*journaletv1.Condition {
	if a.state.GetStage() >= terminated {
		return nil
	}
	var all []*journaletv1.Condition
	add := func(t corev1.PodConditionType, reason, message string) {
		all = append(all, &journaletv1.Condition{Type: string(t), Status: true, Reason: reason, Message: message})
	}
	r := a.state.GetResize()
	if a.state.GetAllocatedDigest() != "" && r.GetDeferred() != "" {
		reason := corev1.PodReasonDeferred
		if r.GetInfeasible() {
			reason = corev1.PodReasonInfeasible
		}
		add(corev1.PodResizePending, reason, r.GetDeferred())
	}
	if r.GetInProgress() {
		reason := ""
		if r.GetError() != "" {
			reason = corev1.PodReasonError
		}
		add(corev1.PodResizeInProgress, reason, r.GetError())
	}
	return all
}

// isResize reports whether a condition is one of a resize. Such a condition is there or not, and gets a new time with
// each new reason.
func isResize(conditionType string) bool {
	return conditionType == string(corev1.PodResizePending) || conditionType == string(corev1.PodResizeInProgress)
}

// reportedResources returns the resources in a container's status: what the runtime reported, else what was last
// applied. A container that does not run has what is allocated.
func (a *Actor) reportedResources(c *corev1.Container, r *journaletv1.ContainerRecord) *corev1.ResourceRequirements {
	out := c.Resources.DeepCopy()
	if !running(r.GetCurrent()) {
		return out
	}
	a.addPodLimits(out)
	has := a.resourcesOf(c)
	is := proto.CloneOf(cmp.Or(has.reported, has.applied))
	is.MemoryRequestBytes = cmp.Or(is.GetMemoryRequestBytes(), has.applied.GetMemoryRequestBytes())
	if is.GetCpuRequestMillis() == 0 && has.allocated.GetCpuRequestMillis() > 0 {
		is.CpuRequestMillis = leastCPURequestMillis
	}
	values := resources.Requirements(is)
	put := func(list, from corev1.ResourceList, name corev1.ResourceName, least int64) {
		value, was := from[name], list[name]
		large := max(resources.Millis(&value), resources.Millis(&was)) > least
		if list != nil && !value.IsZero() && value.Cmp(was) != 0 && large {
			list[name] = value
		}
	}
	put(out.Requests, values.Requests, corev1.ResourceCPU, leastCPURequestMillis)
	put(out.Requests, values.Requests, corev1.ResourceMemory, 0)
	put(out.Limits, values.Limits, corev1.ResourceCPU, leastCPULimitMillis)
	put(out.Limits, values.Limits, corev1.ResourceMemory, 0)
	return out
}

// appliedManifest returns the effective manifest, with the CPU and memory that the pod as a whole was last given. A
// pod whose sandbox does not run has what is allocated.
func (a *Actor) appliedManifest() *corev1.Pod {
	if !a.podUnapplied() || a.state.GetResize().GetApplied() == nil {
		return a.manifest
	}
	has := resources.Requirements(a.state.GetResize().GetApplied())
	isZero := func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() }
	maps.DeleteFunc(has.Requests, isZero)
	maps.DeleteFunc(has.Limits, isZero)
	out := a.manifest.DeepCopy()
	resources.PutPod(&out.Spec, &corev1.PodSpec{Resources: &has})
	return out
}

// addPodLimits adds to the resources of a running container the limits of the pod as a whole that apply to it.
// (kubelet: it reports the runtime's values where the container has a list.) A container without a CPU request has
// shares by its limit.
func (a *Actor) addPodLimits(has *corev1.ResourceRequirements) {
	whole := a.manifest.Spec.Resources
	if whole == nil {
		return
	}
	put := func(list corev1.ResourceList, name corev1.ResourceName, least int64) {
		own, limit := list[name], whole.Limits[name]
		if list != nil && own.IsZero() && resources.Millis(&limit) > least {
			list[name] = limit.DeepCopy()
		}
	}
	_, requested := has.Requests[corev1.ResourceCPU]
	if limit := has.Limits[corev1.ResourceCPU]; !requested && limit.IsZero() {
		put(has.Requests, corev1.ResourceCPU, leastCPURequestMillis)
	}
	put(has.Limits, corev1.ResourceCPU, leastCPULimitMillis)
	put(has.Limits, corev1.ResourceMemory, 0)
}
