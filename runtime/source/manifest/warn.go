package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	podactor "github.com/journalet/journalet/actors/pod"
)

// warn adds warnings about valid values that are probably mistakes.
func warn(r *report, pod *corev1.Pod) {
	warnScheduling(r, &pod.Spec)
	warnWindows(r, &pod.Spec)
	for _, n := range podactor.NotEnforced(pod) {
		r.warn(n.Field, n.Message)
	}
	for i := range pod.Spec.InitContainers {
		warnContainer(r, &pod.Spec.InitContainers[i], fmt.Sprintf("spec.initContainers[%d]", i))
	}
	for i := range pod.Spec.Containers {
		warnContainer(r, &pod.Spec.Containers[i], fmt.Sprintf("spec.containers[%d]", i))
	}
}

func warnContainer(r *report, c *corev1.Container, at string) {
	seen := map[string]bool{}
	for j, e := range c.Env {
		if seen[e.Name] {
			r.warn(fmt.Sprintf("%s.env[%d].name", at, j), fmt.Sprintf("%q is set before: the last value wins", e.Name))
		}
		seen[e.Name] = true
	}
	const fraction = "%s has a fraction of a byte; m means thousandths, Mi mebibytes"
	limit, request := c.Resources.Limits.Memory(), c.Resources.Requests.Memory()
	if hasFraction(limit) {
		r.warn(at+".resources.limits[memory]", fmt.Sprintf(fraction, limit))
	}
	if hasFraction(request) && !request.Equal(*limit) {
		r.warn(at+".resources.requests[memory]", fmt.Sprintf(fraction, request))
	}
	if c.StdinOnce && !c.Stdin {
		r.warn(at+".stdinOnce", "has no effect without stdin")
	}
}

// hasFraction reports whether a quantity is no whole number. MilliValue would not do: it has no more than 8 Pi.
func hasFraction(q *resource.Quantity) bool {
	return q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) != 0
}
