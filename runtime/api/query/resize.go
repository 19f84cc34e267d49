package query

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func (d *Describer) resizeEvent(_ string, _ messages.Ref, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ResizeRequested:
		if k.ResizeRequested.GetWithdrawn() {
			return "take back the question for other resources"
		}
		demand := k.ResizeRequested.GetDemand()
		return fmt.Sprintf("ask the node for cpu %dm, memory %s", demand.GetMilliCpu(), Size(demand.GetMemoryBytes()))
	case *journaletv1.Event_AdditionAsked:
		demand := k.AdditionAsked.GetDemand()
		return fmt.Sprintf("ask the node for cpu %dm, memory %s more, for containers that were added", demand.GetMilliCpu(), Size(demand.GetMemoryBytes()))
	case *journaletv1.Event_AdditionDecided:
		r := k.AdditionDecided
		if r.GetAllocated() {
			return "allocate what was added to pod " + d.podName(r.GetUid())
		}
		return withMessage(fmt.Sprintf("what was added to pod %s waits (%s)", d.podName(r.GetUid()), r.GetReason()), r.GetMessage())
	case *journaletv1.Event_ResizeDecided:
		r := k.ResizeDecided
		if r.GetAllocated() {
			return "allocate the new resources of pod " + d.podName(r.GetUid())
		}
		return withMessage(fmt.Sprintf("pod %s waits for its new resources (%s)", d.podName(r.GetUid()), r.GetReason()), r.GetMessage())
	case *journaletv1.Event_ResizePendingPreemption:
		h := k.ResizePendingPreemption
		namespace, name, _ := strings.Cut(h.GetFullName(), "/")
		d.Name(h.GetUid(), namespace, name)
		return fmt.Sprintf("pod %s gets its new resources when others have ended", d.which(h.GetUid())) + d.victims(h.GetVictims())
	case *journaletv1.Event_ResizeStarted:
		return "what runs does not have what is allocated to it; it gets it as in a resize"
	case *journaletv1.Event_ResizeCompleted:
		return "the resize is done"
	}
	return ""
}

// resizing tells of resizes that wait or fail. That one has begun or is done is told by events of its own.
func (p *podEvents) resizing(c *journaletv1.PodStatusChanged, add addEvent) {
	for _, cond := range c.GetConditions() {
		switch t := corev1.PodConditionType(cond.GetType()); {
		case t == corev1.PodResizePending:
			add(corev1.EventTypeWarning, "Resize"+cond.GetReason(), "%s", cond.GetMessage())
		case t == corev1.PodResizeInProgress && cond.GetReason() == corev1.PodReasonError:
			add(corev1.EventTypeWarning, "ResizeError", "%s", cond.GetMessage())
		}
	}
}

// resources tells CPU and memory as requests and limits, as far as there are any.
func resources(r *journaletv1.Resources) string {
	var parts []string
	add := func(what string, millis, bytes int64) {
		if millis != 0 {
			parts = append(parts, fmt.Sprintf("%s cpu %dm", what, millis))
		}
		if bytes != 0 {
			parts = append(parts, fmt.Sprintf("%s memory %s", what, Size(bytes)))
		}
	}
	add("request", r.GetCpuRequestMillis(), r.GetMemoryRequestBytes())
	add("limit", r.GetCpuLimitMillis(), r.GetMemoryLimitBytes())
	if len(parts) == 0 {
		return "no resources"
	}
	return strings.Join(parts, ", ")
}
