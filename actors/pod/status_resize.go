package pod

import (
	"cmp"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// resizeConditions are the conditions that tell of a resize, of a pod that has not ended.
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
		add(corev1.PodResizePending, corev1.PodReasonDeferred, r.GetDeferred())
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

// isResize tells whether a condition tells of a resize: it is there or not, and has a new time with each new reason.
func isResize(conditionType string) bool {
	return conditionType == string(corev1.PodResizePending) || conditionType == string(corev1.PodResizeInProgress)
}

// actual is what a container has: what is allocated, and what the runtime showed where it was resized.
func (a *Actor) actual(c *corev1.Container, r *journaletv1.ContainerRecord) *corev1.ResourceRequirements {
	out := c.Resources.DeepCopy()
	if !running(r.GetCurrent()) {
		return out
	}
	a.inherit(out)
	has := proto.CloneOf(r.GetApplied())
	if has != nil {
		has.CpuRequestMillis = max(has.GetCpuRequestMillis(), leastCPURequestMillis)
	}
	if shown := r.GetReported(); shown != nil {
		has = proto.CloneOf(shown)
		has.MemoryRequestBytes = cmp.Or(shown.GetMemoryRequestBytes(), r.GetApplied().GetMemoryRequestBytes())
	}
	if has == nil {
		return out
	}
	is := resources.Requirements(has)
	put := func(list, from corev1.ResourceList, name corev1.ResourceName, least int64) {
		value, was := from[name], list[name]
		if list != nil && !value.IsZero() && (value.MilliValue() > least || was.MilliValue() > least) {
			list[name] = value
		}
	}
	put(out.Requests, is.Requests, corev1.ResourceCPU, leastCPURequestMillis)
	put(out.Requests, is.Requests, corev1.ResourceMemory, 0)
	put(out.Limits, is.Limits, corev1.ResourceCPU, leastCPULimitMillis)
	put(out.Limits, is.Limits, corev1.ResourceMemory, 0)
	return out
}

// inherit adds to what a running container has what it has from its pod as a whole, beside what it has of its own (kubelet: it shows what the runtime
// does of a list that is there). Without a CPU request a container has shares by its limit.
func (a *Actor) inherit(has *corev1.ResourceRequirements) {
	whole := a.manifest.Spec.Resources
	if whole == nil {
		return
	}
	put := func(list corev1.ResourceList, name corev1.ResourceName, least int64) {
		own, of := list[name], whole.Limits[name]
		if list != nil && own.IsZero() && of.MilliValue() > least {
			list[name] = of.DeepCopy()
		}
	}
	_, asks := has.Requests[corev1.ResourceCPU]
	if limit := has.Limits[corev1.ResourceCPU]; !asks && limit.IsZero() {
		put(has.Requests, corev1.ResourceCPU, leastCPURequestMillis)
	}
	put(has.Limits, corev1.ResourceCPU, leastCPULimitMillis)
	put(has.Limits, corev1.ResourceMemory, 0)
}
