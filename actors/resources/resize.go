package resources

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/messages/journaletv1"
)

// resizable are the resources that a resize may change (KEP-1287).
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Of is the CPU and memory of a container; CPU is rounded up to thousandths, memory to bytes.
func Of(r *corev1.ResourceRequirements) *journaletv1.Resources {
	return &journaletv1.Resources{
		CpuRequestMillis:   r.Requests.Cpu().MilliValue(),
		CpuLimitMillis:     r.Limits.Cpu().MilliValue(),
		MemoryRequestBytes: r.Requests.Memory().Value(),
		MemoryLimitBytes:   r.Limits.Memory().Value(),
	}
}

// Requirements is the reverse of Of, with every value set: a value of 0 says that there is none.
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

// Equal tells whether two containers have the same CPU and memory.
func Equal(a, b *journaletv1.Resources) bool { return SameCPU(a, b) && SameMemory(a, b) }

// SameCPU tells whether two containers have the same CPU.
func SameCPU(a, b *journaletv1.Resources) bool {
	return a.GetCpuRequestMillis() == b.GetCpuRequestMillis() && a.GetCpuLimitMillis() == b.GetCpuLimitMillis()
}

// SameMemory tells whether two containers have the same memory.
func SameMemory(a, b *journaletv1.Resources) bool {
	return a.GetMemoryRequestBytes() == b.GetMemoryRequestBytes() && a.GetMemoryLimitBytes() == b.GetMemoryLimitBytes()
}

// Restarts tells whether a container is to be restarted to get other resources: where its policy says so, and where a limit is to go, which
// no runtime takes away in place.
func Restarts(c *corev1.Container, from, to *journaletv1.Resources) bool {
	if from.GetCpuLimitMillis() > 0 && to.GetCpuLimitMillis() == 0 || from.GetMemoryLimitBytes() > 0 && to.GetMemoryLimitBytes() == 0 {
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

// SameOfPod tells whether two pods have the same CPU and memory as a whole.
func SameOfPod(a, b *corev1.Pod) bool {
	x, y := a.Spec.Resources, b.Spec.Resources
	if x == nil {
		x = new(corev1.ResourceRequirements)
	}
	if y == nil {
		y = new(corev1.ResourceRequirements)
	}
	return same(x.Requests, y.Requests) && same(x.Limits, y.Limits)
}

// Same tells whether two pods, and the containers that they have in common, have the same CPU and memory in both.
func Same(a, b *corev1.Pod) bool {
	if !SameOfPod(a, b) {
		return false
	}
	for _, of := range containers(a) {
		if in := find(b, of.Name); in != nil && !(same(of.Resources.Requests, in.Resources.Requests) && same(of.Resources.Limits, in.Resources.Limits)) {
			return false
		}
	}
	return true
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

// Covers tells whether a pod has what it is to have where another manifest is allocated to it: it has the CPU and memory of that one,
// and its containers that are not in there have what was added for them. One that asks for nothing needs nothing.
func Covers(allocated, pod *corev1.Pod, added map[string]*journaletv1.Resources) bool {
	if !Same(allocated, pod) {
		return false
	}
	for _, c := range containers(pod) {
		switch has, ok := added[c.Name]; {
		case Has(allocated, c.Name):
		case ok && !Equal(has, Of(&c.Resources)), !ok && Asks(c):
			return false
		}
	}
	return true
}

// Has tells whether a pod has a container of this name.
func Has(pod *corev1.Pod, name string) bool { return pod != nil && find(pod, name) != nil }

// Asks tells whether a container takes CPU or memory of the node.
func Asks(c *corev1.Container) bool {
	return !c.Resources.Requests.Cpu().IsZero() || !c.Resources.Requests.Memory().IsZero()
}

// Allocated is a pod that has the CPU and memory of another manifest, as a whole and in the containers of the same names, and in others what was
// added for them by name. What is in neither keeps its own. The pod itself is given back where nothing differs, and never changed.
func Allocated(pod, allocated *corev1.Pod, added map[string]*journaletv1.Resources) *corev1.Pod {
	if pod == nil || allocated == nil || Same(pod, allocated) && len(added) == 0 {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Spec.Resources = allocated.Spec.Resources.DeepCopy()
	for _, c := range containers(pod) {
		if from := find(allocated, c.Name); from != nil {
			c.Resources.Requests = with(c.Resources.Requests, from.Resources.Requests)
			c.Resources.Limits = with(c.Resources.Limits, from.Resources.Limits)
		} else if has, ok := added[c.Name]; ok && !Equal(has, Of(&c.Resources)) {
			from := Requirements(has)
			c.Resources.Requests = with(c.Resources.Requests, positive(from.Requests))
			c.Resources.Limits = with(c.Resources.Limits, positive(from.Limits))
		}
	}
	return pod
}

// positive is a list without what is 0.
func positive(list corev1.ResourceList) corev1.ResourceList {
	maps.DeleteFunc(list, func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() })
	return list
}

// with is list with the CPU and memory of another one.
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

// Removed names a request or limit of CPU or memory that a container has in one pod and no more in another, "" for none
// (the API server forbids it: ValidatePodResize).
func Removed(from, to *corev1.Pod) string {
	for _, c := range containers(from) {
		now := find(to, c.Name)
		if now == nil {
			continue
		}
		for _, name := range resizable {
			if gone(c.Resources.Requests, now.Resources.Requests, name) {
				return "the " + string(name) + " request of container " + c.Name
			}
			if gone(c.Resources.Limits, now.Resources.Limits, name) {
				return "the " + string(name) + " limit of container " + c.Name
			}
		}
	}
	return ""
}

func gone(from, to corev1.ResourceList, name corev1.ResourceName) bool {
	_, was := from[name]
	_, is := to[name]
	return was && !is
}

// Unsized is a pod without the CPU and memory of those of its containers that are resized in place: what of them makes no
// other pod. It is a copy.
func Unsized(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, c := range containers(pod) {
		if len(c.ResizePolicy) > 0 {
			c.Resources.Requests = with(c.Resources.Requests, nil)
			c.Resources.Limits = with(c.Resources.Limits, nil)
		}
	}
	return pod
}

// Resizable tells whether a container of a pod says how it is resized in place.
func Resizable(pod *corev1.Pod) bool {
	for _, c := range containers(pod) {
		if len(c.ResizePolicy) > 0 {
			return true
		}
	}
	return false
}

// containers are all containers of a pod, init containers first.
func containers(pod *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

func find(pod *corev1.Pod, name string) *corev1.Container {
	for _, c := range containers(pod) {
		if c.Name == name {
			return c
		}
	}
	return nil
}
