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
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// updateContainer sets the resources of a running container. CPU and memory must not change in one call.
func (w *world) updateContainer(
	o *objects, alias string, k *journaletv1.UpdateContainer, out *journaletv1.CallFinished,
) {
	i := o.index(k.GetContainerId())
	if i < 0 || !alive(o.containers[i]) {
		out.Error, out.Message = journaletv1.CallError_CALL_ERROR_NOT_DONE, "the container is gone"
		return
	}
	out.ContainerId = k.GetContainerId()
	if p := k.GetPlacement(); p != nil {
		o.cpus[k.GetContainerId()] = p.GetCpus()
	}
	if k.GetResources() == nil {
		return
	}
	before, after := o.resources[k.GetContainerId()], k.GetResources()
	if !resources.SameCPU(before, after) && !resources.SameMemory(before, after) {
		w.violation("%s: one call changes CPU and memory of %s", alias, k.GetContainer())
	}
	o.resources[k.GetContainerId()] = after
	out.Reported = proto.CloneOf(after)
	out.Reported.MemoryRequestBytes = 0
	if c := o.containers[i]; c.GetResources() != nil {
		c.Resources = w.reported(after)
	}
}

// reported returns what a runtime reports of applied resources: CPU shares, at least the 2 of a cgroup, and no memory
// request. It reports no limit of CPU where limits are not enforced, and a coarser limit with a short period.
func (w *world) reported(r *journaletv1.Resources) *journaletv1.Resources {
	r = proto.CloneOf(r)
	if q := w.cpuQuota; q != nil && r.GetCpuLimitMillis() > 0 {
		quota, period := cgroup.CPUQuota{Off: q.GetOff(), Period: q.GetPeriod().AsDuration().Microseconds()}.
			Of(r.GetCpuLimitMillis())
		if r.CpuLimitMillis = 0; period > 0 {
			r.CpuLimitMillis = quota * resources.MilliPerCPU / period
		}
	}
	r.CpuRequestMillis, r.MemoryRequestBytes = max(r.GetCpuRequestMillis(), 2), 0
	return r
}

// forgetStarts makes later inspections report the resources of running containers: no record of their starts is left.
func (w *world) forgetStarts() {
	for _, o := range w.pods {
		for _, x := range o.sandboxes {
			delete(o.resources, x.GetId())
		}
		for _, c := range o.containers {
			size := o.resources[c.GetId()]
			if size != nil && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING {
				c.Resources = w.reported(size)
			}
		}
	}
}

// checkResources reports a container without its allocated resources when nothing is left to happen. Of a container
// that an agent without its journal found, only what the runtime reports can be compared.
func (g *engine) checkResources(a *pod.Actor, c *journaletv1.ContainerObservation, report func(string, ...any)) {
	size := g.world.objectsOf(a.Pod().GetObserved().GetUid()).resources[c.GetId()]
	if !alive(c) || size == nil || a.Manifest() == nil {
		return
	}
	for _, list := range [][]corev1.Container{a.Manifest().Spec.InitContainers, a.Manifest().Spec.Containers} {
		for i := range list {
			want := resources.OfContainer(a.Manifest(), &list[i])
			if c.GetResources() != nil {
				size, want = g.world.reported(size), g.world.reported(want)
			}
			if list[i].Name == c.GetName() && !resources.Equal(size, want) {
				report("container %s has %s, allocated are %s", c.GetId(), resourcesText(size), resourcesText(want))
			}
		}
	}
}

// checkPodResources reports a sandbox without what is allocated to the pod as a whole, when nothing is left to happen.
// Of a sandbox that an agent without its journal found, nothing is known.
func (g *engine) checkPodResources(a *pod.Actor, x *journaletv1.SandboxObservation, report func(string, ...any)) {
	size := g.world.objectsOf(a.Pod().GetObserved().GetUid()).resources[x.GetId()]
	if size == nil || a.Manifest() == nil || x.GetState() != journaletv1.SandboxState_SANDBOX_STATE_READY {
		return
	}
	if want := resources.OfPod(a.Manifest()); !resources.Equal(size, want) {
		report("sandbox %s has %s, allocated are %s", x.GetId(), resourcesText(size), resourcesText(want))
	}
}

// waitsForResources reports whether a container of a pod waits for a resize that is deferred.
func waitsForResources(v *corev1.Pod) bool {
	containers := slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses)
	return slices.ContainsFunc(v.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending
	}) && slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && strings.Contains(c.State.Waiting.Message, "new resources are not allocated")
	})
}

// resources shows the desired, allocated, reported and applied resources of a pod's containers.
func (s *Scenario) resources(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	v := s.g.pod(uid).View(pod.Node{RuntimeName: "fake"})
	text := ""
	for _, c := range v.Status.Conditions {
		if strings.HasPrefix(string(c.Type), "PodResize") {
			at := since(c.LastTransitionTime.Time)
			text += strings.TrimSpace(fmt.Sprintf("%s %s %s %s", c.Type, at, c.Reason, c.Message)) + "\n"
		}
	}
	for _, x := range s.g.world.objectsOf(uid).sandboxes {
		size := s.g.world.objectsOf(uid).resources[x.GetId()]
		if v.Spec.Resources != nil && x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY && size != nil {
			text += fmt.Sprintf("pod: desired %s, allocated %s, reported %s, applied %s\n",
				resourcesText(resources.OfPod(v)),
				resourcesText(resources.Of(&corev1.ResourceRequirements{Requests: v.Status.AllocatedResources})),
				resourcesText(resources.Of(v.Status.Resources)), resourcesText(size))
		}
	}
	specs, there := slices.Concat(v.Spec.InitContainers, v.Spec.Containers), s.g.world.objectsOf(uid)
	for i, c := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
		text += fmt.Sprintf("%s: desired %s, allocated %s, ", c.Name, resourcesText(resources.Of(&specs[i].Resources)),
			resourcesText(resources.Of(&corev1.ResourceRequirements{Requests: c.AllocatedResources})))
		if c.Resources != nil {
			text += "reported " + resourcesText(resources.Of(c.Resources)) + ", "
		}
		text += "applied " + resourcesText(there.resources[there.newest(c.Name).GetId()]) + "\n"
	}
	return text, nil
}

// resourcesText writes requests and limits as cpu/memory, in thousandths of a CPU and MiB.
func resourcesText(r *journaletv1.Resources) string {
	return fmt.Sprintf("%dm/%dMi<=%dm/%dMi", r.GetCpuRequestMillis(), r.GetMemoryRequestBytes()>>20,
		r.GetCpuLimitMillis(), r.GetMemoryLimitBytes()>>20)
}

// resize describes decisions on resizes; objectsOrVolumes describes the rest.
func (n *names) resize(e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ResizeRequested:
		d := k.ResizeRequested.GetDemand()
		return fmt.Sprintf("request resize %dm/%dMi", d.GetMilliCpu(), d.GetMemoryBytes()>>20)
	case *journaletv1.Event_ResizeDecided:
		d := k.ResizeDecided
		if d.GetAllocated() {
			return "allocate resize of pod/" + n.aliasOf(d.GetUid())
		}
		return "defer resize of pod/" + n.aliasOf(d.GetUid()) + " " + d.GetReason() + ": " + d.GetMessage()
	case *journaletv1.Event_SharedCpusDecided:
		return fmt.Sprintf("share cpus %s among %d pods", k.SharedCpusDecided.GetCpus(), len(k.SharedCpusDecided.GetPods()))
	case *journaletv1.Event_ResizePendingPreemption:
		h := k.ResizePendingPreemption
		text := "keep resize of pod/" + n.aliasOf(h.GetUid()) + " pending " + h.GetReason() + ": " + h.GetMessage()
		return text + n.victims(h.GetVictims())
	case *journaletv1.Event_ResizeStarted:
		return "resize started"
	case *journaletv1.Event_ResizeWithdrawn:
		return "withdraw resize"
	case *journaletv1.Event_ResizeCompleted:
		return "resize completed"
	}
	return n.objectsOrVolumes(e)
}
