package manifest

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

// podResourceNames are what a pod as a whole can have a request or limit of, beside huge pages (KEP-2837).
var podResourceNames = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// defaultPodResources fills in what a pod as a whole does not say of its resources, as the API server does when a pod is created: a request is the
// sum of the containers', or else the limit; a limit is the sum of the containers', where each has one, or the request if that is more.
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
	requests, limits := resourcehelper.AggregateContainerRequests(pod, all), resourcehelper.AggregateContainerLimits(pod, all)
	for _, name := range podResourceNames {
		request, asked := res.Requests[name]
		limit, limited := res.Limits[name]
		sum, summed := requests[name]
		switch {
		case asked:
		case summed:
			request, asked = sum, true
		case limited:
			request, asked = limit, true
		}
		if asked {
			setResource(&res.Requests, name, request)
		}
		if asked && !limited && allLimited(pod, name) {
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

// allLimited tells whether every container says a limit of a resource, be it 0.
func allLimited(pod *corev1.Pod, name corev1.ResourceName) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if _, said := list[i].Resources.Limits[name]; !said {
				return false
			}
		}
	}
	return true
}

// validatePodResources checks the resources of a pod as a whole, and that those of its containers fit in. The pod has its defaults.
func validatePodResources(r *report, spec *corev1.PodSpec, at *field.Path) {
	res := spec.Resources
	if res == nil {
		return
	}
	podResourceList(r, res.Limits, nil, at.Child("limits"))
	podResourceList(r, res.Requests, res.Limits, at.Child("requests"))
	withinLimits(r, res, at)
	sums := resourcehelper.AggregateContainerRequests(&corev1.Pod{Spec: *spec}, resourcehelper.PodResourcesOptions{})
	for _, name := range podResourceNames {
		request, asked := res.Requests[name]
		if sum := sums[name]; asked && request.Sign() >= 0 && sum.Cmp(request) > 0 {
			r.invalid(field.ErrorList{field.Invalid(at.Child("requests").Key(string(name)), request.String(),
				fmt.Sprintf("must be at least what the containers request in sum, %s", sum.String()))})
		}
		limit, limited := res.Limits[name]
		if !limited {
			continue
		}
		for i := range spec.Containers {
			if own := spec.Containers[i].Resources.Limits[name]; own.Cmp(limit) > 0 {
				p := field.NewPath("spec", "containers").Index(i).Child("resources", "limits").Key(string(name))
				r.invalid(field.ErrorList{field.Invalid(p, own.String(), fmt.Sprintf("must be at most the pod's limit, %s", limit.String()))})
			}
		}
	}
}

// podResourceList checks a list, save for what is equal in reported.
func podResourceList(r *report, list, reported corev1.ResourceList, at *field.Path) {
	for _, name := range sortedNames(list) {
		quantity := list[name]
		if same, ok := reported[name]; ok && same.Cmp(quantity) == 0 {
			continue
		}
		p := at.Key(string(name))
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory:
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			r.notYet(p.String(), "the use of huge pages")
		default:
			r.invalid(field.ErrorList{field.NotSupported(p, string(name), podResourceNames)})
		}
		if quantity.Sign() < 0 {
			r.invalid(field.ErrorList{field.Invalid(p, quantity.String(), "must be 0 or more")})
		}
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
