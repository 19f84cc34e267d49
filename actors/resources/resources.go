package resources

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/messages/journaletv1"
)

// resizable are the resources that a resize may change (KEP-1287).
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Of returns the CPU and memory of a container. CPU is rounded up to thousandths, memory to bytes.
func Of(r *corev1.ResourceRequirements) *journaletv1.Resources {
	return &journaletv1.Resources{
		CpuRequestMillis:   Millis(r.Requests.Cpu()),
		CpuLimitMillis:     Millis(r.Limits.Cpu()),
		MemoryRequestBytes: Bytes(r.Requests.Memory()),
		MemoryLimitBytes:   Bytes(r.Limits.Memory()),
	}
}

// OfContainer returns the CPU and memory of a container of a pod, with the limits of the pod as a whole where it has
// none of its own (KEP-2837).
func OfContainer(pod *corev1.Pod, c *corev1.Container) *journaletv1.Resources {
	out, whole := Of(&c.Resources), OfPod(pod)
	out.CpuLimitMillis = cmp.Or(out.GetCpuLimitMillis(), whole.GetCpuLimitMillis())
	out.MemoryLimitBytes = cmp.Or(out.GetMemoryLimitBytes(), whole.GetMemoryLimitBytes())
	return out
}

// OfPod returns the CPU and memory in spec.resources; all of them 0 without it.
func OfPod(pod *corev1.Pod) *journaletv1.Resources {
	if pod.Spec.Resources == nil {
		return new(journaletv1.Resources)
	}
	return Of(pod.Spec.Resources)
}

// Requirements is the reverse of Of. Every value is set: 0 stands for none.
func Requirements(r *journaletv1.Resources) corev1.ResourceRequirements {
	list := func(millis, bytes int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(millis, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI),
		}
	}
	return corev1.ResourceRequirements{
		Requests: list(r.GetCpuRequestMillis(), r.GetMemoryRequestBytes()),
		Limits:   list(r.GetCpuLimitMillis(), r.GetMemoryLimitBytes()),
	}
}

// Equal reports whether two containers, or pods as a whole, have the same CPU and memory.
func Equal(a, b *journaletv1.Resources) bool { return SameCPU(a, b) && SameMemory(a, b) }

// SameCPU reports whether two containers have the same CPU.
func SameCPU(a, b *journaletv1.Resources) bool {
	return a.GetCpuRequestMillis() == b.GetCpuRequestMillis() && a.GetCpuLimitMillis() == b.GetCpuLimitMillis()
}

// SameMemory reports whether two containers have the same memory.
func SameMemory(a, b *journaletv1.Resources) bool {
	return a.GetMemoryRequestBytes() == b.GetMemoryRequestBytes() && a.GetMemoryLimitBytes() == b.GetMemoryLimitBytes()
}

// Restarts reports whether a container must be restarted to get other resources: if its resizePolicy says so, or if a
// limit is removed, since no runtime removes one in place.
func Restarts(c *corev1.Container, from, to *journaletv1.Resources) bool {
	if from.GetCpuLimitMillis() > 0 && to.GetCpuLimitMillis() == 0 ||
		from.GetMemoryLimitBytes() > 0 && to.GetMemoryLimitBytes() == 0 {
		return true
	}
	for _, p := range c.ResizePolicy {
		differs := p.ResourceName == corev1.ResourceCPU && !SameCPU(from, to) ||
			p.ResourceName == corev1.ResourceMemory && !SameMemory(from, to)
		if differs && p.RestartPolicy == corev1.RestartContainer {
			return true
		}
	}
	return false
}

// Same reports whether two pods have the same CPU and memory, each as a whole and in each container. Both must have the
// same containers.
func Same(a, b *corev1.Pod) bool {
	if !sameWhole(a.Spec.Resources, b.Spec.Resources) {
		return false
	}
	x, y := containers(a), containers(b)
	for i := range min(len(x), len(y)) {
		if !same(x[i].Resources.Requests, y[i].Resources.Requests) || !same(x[i].Resources.Limits, y[i].Resources.Limits) {
			return false
		}
	}
	return true
}

func sameWhole(a, b *corev1.ResourceRequirements) bool {
	a, b = cmp.Or(a, new(corev1.ResourceRequirements)), cmp.Or(b, new(corev1.ResourceRequirements))
	return same(a.Requests, b.Requests) && same(a.Limits, b.Limits)
}

func same(a, b corev1.ResourceList) bool {
	for _, name := range resizable {
		x, inA := a[name]
		y, inB := b[name]
		if inA != inB || x.Cmp(y) != 0 {
			return false
		}
	}
	return true
}

// Allocated returns pod with the CPU and memory of allocated, another manifest of the same pod. It returns pod itself
// if nothing differs, else a copy: pod is never changed.
func Allocated(pod, allocated *corev1.Pod) *corev1.Pod {
	if pod == nil || allocated == nil || Same(pod, allocated) {
		return pod
	}
	pod = pod.DeepCopy()
	PutPod(&pod.Spec, &allocated.Spec)
	from := containers(allocated)
	for i, c := range containers(pod) {
		if i < len(from) {
			Put(&c.Resources, &from[i].Resources)
		}
	}
	return pod
}

// Put sets a container's CPU and memory to another's, and changes nothing else.
func Put(c, from *corev1.ResourceRequirements) {
	c.Requests, c.Limits = with(c.Requests, from.Requests), with(c.Limits, from.Limits)
}

// PutPod sets CPU and memory of a pod as a whole to another's, and changes nothing else. Where the other has
// no spec.resources, and nothing is left, it is unset.
func PutPod(to, from *corev1.PodSpec) {
	if to.Resources == nil && from.Resources == nil {
		return
	}
	has := cmp.Or(to.Resources, new(corev1.ResourceRequirements))
	Put(has, cmp.Or(from.Resources, new(corev1.ResourceRequirements)))
	if to.Resources = has; from.Resources == nil && len(has.Requests)+len(has.Limits)+len(has.Claims) == 0 {
		to.Resources = nil
	}
}

// Keeps reports whether a container, or a pod as a whole, still has every request and limit of CPU and memory
// that it had, whatever its value (the API server forbids their removal: ValidatePodResize).
func Keeps(was, is *corev1.ResourceRequirements) bool {
	for _, name := range resizable {
		if gone(was.Requests, is.Requests, name) || gone(was.Limits, is.Limits, name) {
			return false
		}
	}
	return true
}

// with returns list with the CPU and memory of from.
func with(list, from corev1.ResourceList) corev1.ResourceList {
	for _, name := range resizable {
		value, set := from[name]
		if !set {
			delete(list, name)
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = value.DeepCopy()
	}
	return list
}

func gone(from, to corev1.ResourceList, name corev1.ResourceName) bool {
	_, was := from[name]
	_, is := to[name]
	return was && !is
}

// WithoutResizable returns a copy of a pod without the CPU and memory of the containers that can be resized in place:
// the part whose change is not another incarnation of the pod.
func WithoutResizable(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, c := range containers(pod) {
		if len(c.ResizePolicy) > 0 {
			c.Resources.Requests = with(c.Resources.Requests, nil)
			c.Resources.Limits = with(c.Resources.Limits, nil)
		}
	}
	return pod
}

// Resizable reports whether a container of a pod can be resized in place: it has a resizePolicy.
func Resizable(pod *corev1.Pod) bool {
	for _, c := range containers(pod) {
		if len(c.ResizePolicy) > 0 {
			return true
		}
	}
	return false
}

// containers returns all containers of a pod, init containers first.
func containers(pod *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}
