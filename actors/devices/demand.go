package devices

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// IsResource reports whether a resource is of the kind that device plugins offer, such as vendor.com/gpu (API: extended
// resource). The CDI name of a device, vendor.com/class=device, is not a resource.
func IsResource(name corev1.ResourceName) bool {
	domain, _, found := strings.Cut(string(name), "/")
	return found && !strings.Contains(string(name), "=") && !strings.Contains(domain+"/", "kubernetes.io/") &&
		!strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}

// Demand returns which devices a pod's containers are to have: init containers first, each in the order of the
// manifest, then by resource. As in the kubelet, the limits count.
func Demand(p *corev1.Pod) []*journaletv1.DeviceDemand {
	if p == nil {
		return nil
	}
	var all []*journaletv1.DeviceDemand
	add := func(c *corev1.Container, init bool) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			q := c.Resources.Limits[name]
			if n := q.Value(); n > 0 && IsResource(name) {
				all = append(all, &journaletv1.DeviceDemand{Container: c.Name, Resource: string(name), Count: n, Init: init})
			}
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		add(c, !sidecar)
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i], false)
	}
	return all
}
