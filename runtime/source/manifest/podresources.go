package manifest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

// podResourceNames are the resources of pod-level requests and limits, beside huge pages (KEP-2837).
var podResourceNames = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// isHuge reports whether a resource is huge pages of some size.
func isHuge(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// podResourcesIn returns the resources that a pod can request as a whole: podResourceNames, and huge pages of the sizes
// in lists.
func podResourcesIn(lists ...corev1.ResourceList) []corev1.ResourceName {
	names := slices.Clone(podResourceNames)
	for _, list := range lists {
		for _, name := range sortedNames(list) {
			if isHuge(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// defaultPodResources sets the defaults of pod-level resources, as the API server does when a pod is created: a request
// defaults to the sum of the containers' requests, or else to the limit. A limit defaults to the sum of the containers'
// limits, if each has one, or to the request if that is larger. Huge pages cannot be overcommitted: their limit
// defaults to the sum of the containers' limits, and their request to the limit.
func defaultPodResources(pod *corev1.Pod) {
	res := pod.Spec.Resources
	if res == nil {
		return
	}
	roundResources(res)
	if !resourcehelper.IsPodLevelResourcesSet(pod) {
		return
	}
	all := resourcehelper.PodResourcesOptions{}
	requests := resourcehelper.AggregateContainerRequests(pod, all)
	limits := resourcehelper.AggregateContainerLimits(pod, all)
	for _, name := range podResourcesIn(res.Requests, res.Limits, limits) {
		request, requested := res.Requests[name]
		limit, limited := res.Limits[name]
		sum, summed := requests[name]
		if total, has := limits[name]; isHuge(name) && has && !requested && !limited {
			limit, limited = total, true
			setResource(&res.Limits, name, total)
		}
		switch {
		case requested:
		case isHuge(name):
			request, requested = limit, limited
		case summed:
			request, requested = sum, true
		case limited:
			request, requested = limit, true
		}
		if requested {
			setResource(&res.Requests, name, request)
		}
		if requested && !limited && allLimited(pod, name) {
			limit = limits[name]
			if request.Cmp(limit) > 0 {
				limit = request
			}
			setResource(&res.Limits, name, limit)
		}
	}
}

func setResource(list *corev1.ResourceList, name corev1.ResourceName, to resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = to.DeepCopy()
}

// allLimited reports whether every container has a limit of a resource, even 0.
func allLimited(pod *corev1.Pod, name corev1.ResourceName) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if _, ok := list[i].Resources.Limits[name]; !ok {
				return false
			}
		}
	}
	return true
}

// validatePodResources checks pod-level resources, and that the containers' resources fit into them. The pod has its
// defaults.
func validatePodResources(r *report, spec *corev1.PodSpec, at *field.Path) {
	res := spec.Resources
	if res == nil {
		return
	}
	podResourceList(r, res.Limits, nil, at.Child("limits"))
	podResourceList(r, res.Requests, res.Limits, at.Child("requests"))
	withinLimits(r, res, at)
	r.invalid(validateHugePageLimits(res, at))
	pod := &corev1.Pod{Spec: *spec}
	sums := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	limits := resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range podResourcesIn(res.Requests, res.Limits) {
		request, requested := res.Requests[name]
		if sum := sums[name]; requested && request.Sign() >= 0 && sum.Cmp(request) > 0 {
			r.invalid(field.ErrorList{field.Invalid(at.Child("requests").Key(string(name)), request.String(),
				fmt.Sprintf("must be at least the sum of the containers' requests, %s", sum.String()))})
		}
		limit, limited := res.Limits[name]
		if !limited {
			continue
		}
		if sum := limits[name]; isHuge(name) && sum.Cmp(limit) > 0 {
			r.invalid(field.ErrorList{field.Invalid(at.Child("limits").Key(string(name)), limit.String(),
				fmt.Sprintf("must be at least the sum of the containers' limits, %s", sum.String()))})
		}
		for i := range spec.Containers {
			if own := spec.Containers[i].Resources.Limits[name]; own.Cmp(limit) > 0 {
				p := field.NewPath("spec", "containers").Index(i).Child("resources", "limits").Key(string(name))
				r.invalid(field.ErrorList{field.Invalid(p, own.String(),
					fmt.Sprintf("must be at most the pod's limit, %s", limit.String()))})
			}
		}
	}
}

// podResourceList checks a list, except for values that are equal in reported.
func podResourceList(r *report, list, reported corev1.ResourceList, at *field.Path) {
	for _, name := range sortedNames(list) {
		quantity := list[name]
		if same, ok := reported[name]; ok && same.Cmp(quantity) == 0 {
			continue
		}
		p := at.Key(string(name))
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory:
		case isHuge(name):
			r.invalid(validateHugePages(name, quantity, p))
		default:
			r.invalid(field.ErrorList{field.NotSupported(p, string(name), podResourceNames)})
		}
		r.invalid(validateQuantity(name, quantity, p))
	}
}

// withinLimits refuses a request above its limit.
func withinLimits(r *report, res *corev1.ResourceRequirements, at *field.Path) {
	for _, name := range sortedNames(res.Requests) {
		limit, limited := res.Limits[name]
		request := res.Requests[name]
		if limited && request.Cmp(limit) > 0 {
			r.invalid(field.ErrorList{field.Invalid(at.Child("requests").Key(string(name)), request.String(),
				fmt.Sprintf("must be at most the limit, %s", limit.String()))})
		}
	}
}
