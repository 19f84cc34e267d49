package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// podResources sets pod-level resources. Most of them fit the pod's containers.
func (m *Generator) podResources(p *corev1.Pod) {
	r := &corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		least, most := m.needs(p, name)
		request := least.DeepCopy()
		if m.Chance(60) {
			more := m.quantity(name)
			request.Add(more)
		}
		limit := request.DeepCopy()
		if limit.Cmp(most) < 0 {
			limit = most.DeepCopy()
		}
		if m.Chance(50) {
			more := m.quantity(name)
			limit.Add(more)
		}
		if m.r.IntN(1000) < m.Bad {
			request, limit = m.quantity(name), m.quantity(name)
		}
		if m.Chance(50) {
			r.Requests[name] = request
		}
		if m.Chance(50) {
			r.Limits[name] = limit
		}
	}
	if m.r.IntN(1000) < m.Bad {
		r.Limits[Pick[corev1.ResourceName](m, "ephemeral-storage", "gpu", "example.com/gpu", "hugepages-2Mi")] =
			resource.MustParse("1")
	}
	p.Spec.Resources = r
}

// needs returns the sum of the containers' requests, with defaults, and the largest limit of a container.
func (m *Generator) needs(p *corev1.Pod, name corev1.ResourceName) (least, most resource.Quantity) {
	p = p.DeepCopy()
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			limit, limited := r.Limits[name]
			if _, requested := r.Requests[name]; limited && !requested {
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				r.Requests[name] = limit.DeepCopy()
			}
			if limit.Cmp(most) > 0 {
				most = limit.DeepCopy()
			}
		}
	}
	requests := resourcehelper.AggregateContainerRequests(p, resourcehelper.PodResourcesOptions{})
	return requests[name], most
}
