package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// updateContainer gives a container that is alive other resources. It wants memory before CPU, and one at a time.
func (w *world) updateContainer(o *objects, alias string, k *journaletv1.UpdateContainer, out *journaletv1.CallFinished) {
	i := slices.IndexFunc(o.containers, func(c *journaletv1.ContainerObservation) bool { return c.GetId() == k.GetContainerId() })
	if i < 0 || !alive(o.containers[i]) {
		out.Error, out.Message = journaletv1.CallError_CALL_ERROR_NOT_DONE, "the container is gone"
		return
	}
	before, after := o.sizes[k.GetContainerId()], k.GetResources()
	if !resources.SameCPU(before, after) && !resources.SameMemory(before, after) {
		w.sin("%s: CPU and memory of %s are changed by one call", alias, k.GetContainer())
	}
	o.sizes[k.GetContainerId()] = after
	out.ContainerId = k.GetContainerId()
	out.Reported = proto.CloneOf(after)
	out.Reported.MemoryRequestBytes = 0
	if c := o.containers[i]; c.GetResources() != nil {
		c.Resources = shown(after)
	}
}

// shown is what a runtime shows of what it gave: shares of CPU, of which a cgroup has 2 at least, and no memory request.
func shown(r *journaletv1.Resources) *journaletv1.Resources {
	r = proto.CloneOf(r)
	r.CpuRequestMillis, r.MemoryRequestBytes = max(r.GetCpuRequestMillis(), 2), 0
	return r
}

// forgetStarts has the looks from now on show what the containers have that run: no record tells who started them.
func (w *world) forgetStarts() {
	for _, o := range w.pods {
		for _, c := range o.containers {
			if size := o.sizes[c.GetId()]; size != nil && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING {
				c.Resources = shown(size)
			}
		}
	}
}

// judgeSize tells whether a container of a pod that has come to rest does not have what is allocated to it. Of one that an
// agent without its journal found it cannot know more than the runtime shows.
func (g *engine) judgeSize(a *pod.Actor, c *journaletv1.ContainerObservation, say func(string, ...any)) {
	size := g.world.of(a.Pod().GetObserved().GetUid()).sizes[c.GetId()]
	if !alive(c) || size == nil || a.Manifest() == nil {
		return
	}
	for _, list := range [][]corev1.Container{a.Manifest().Spec.InitContainers, a.Manifest().Spec.Containers} {
		for i := range list {
			want := resources.Of(&list[i].Resources)
			if c.GetResources() != nil {
				size, want = shown(size), shown(want)
			}
			if list[i].Name == c.GetName() && !resources.Equal(size, want) {
				say("container %s has %s, and allocated is %s", c.GetId(), sizes(size), sizes(want))
			}
		}
	}
}

// waitsForShare tells whether something of a pod waits for what it asks for, and the pod says that this is not to be had.
func waitsForShare(v *corev1.Pod) bool {
	return slices.ContainsFunc(v.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending }) &&
		slices.ContainsFunc(slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
			return c.State.Waiting != nil && strings.Contains(c.State.Waiting.Message, "new resources are not allocated")
		})
}

// resources shows what containers want, have been allocated, are told to have, and have.
func (s *Story) resources(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	v := s.g.pod(uid).View(pod.Node{RuntimeName: "fake"})
	text := ""
	for _, c := range v.Status.Conditions {
		if strings.HasPrefix(string(c.Type), "PodResize") {
			text += strings.TrimSpace(fmt.Sprintf("%s %s %s %s", c.Type, since(c.LastTransitionTime.Time), c.Reason, c.Message)) + "\n"
		}
	}
	specs := slices.Concat(v.Spec.InitContainers, v.Spec.Containers)
	for i, c := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
		text += fmt.Sprintf("%s: wants %s, allocated %s, ", c.Name, sizes(resources.Of(&specs[i].Resources)),
			sizes(resources.Of(&corev1.ResourceRequirements{Requests: c.AllocatedResources})))
		if c.Resources != nil {
			text += "shows " + sizes(resources.Of(c.Resources)) + ", "
		}
		text += "has " + sizes(s.g.world.of(uid).sizes[s.g.world.of(uid).newest(c.Name).GetId()]) + "\n"
	}
	return text, nil
}

// sizes writes requests and limits as cpu/memory, in thousandths and MiB.
func sizes(r *journaletv1.Resources) string {
	return fmt.Sprintf("%dm/%dMi<=%dm/%dMi", r.GetCpuRequestMillis(), r.GetMemoryRequestBytes()>>20, r.GetCpuLimitMillis(), r.GetMemoryLimitBytes()>>20)
}

// resize tells the decisions on resizes, and claim the rest.
func (n *names) resize(e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ResizeRequested:
		return fmt.Sprintf("ask for resources %dm/%dMi", k.ResizeRequested.GetDemand().GetMilliCpu(), k.ResizeRequested.GetDemand().GetMemoryBytes()>>20)
	case *journaletv1.Event_ResizeDecided:
		d := k.ResizeDecided
		if d.GetAllocated() {
			return "allocate resources of pod/" + n.of(d.GetUid())
		}
		return "defer resources of pod/" + n.of(d.GetUid()) + " " + d.GetReason() + ": " + d.GetMessage()
	case *journaletv1.Event_ResizePendingPreemption:
		h := k.ResizePendingPreemption
		text := "hold resources of pod/" + n.of(h.GetUid()) + " " + h.GetReason() + ": " + h.GetMessage()
		for _, uid := range h.GetVictims() {
			text += ", end pod/" + n.of(uid)
		}
		return text
	case *journaletv1.Event_ResizeStarted:
		return "what runs does not have what is allocated"
	case *journaletv1.Event_ResizeWithdrawn:
		return "withdraw the request for resources"
	case *journaletv1.Event_ResizeCompleted:
		return "resize is done"
	}
	return n.claim(e)
}
