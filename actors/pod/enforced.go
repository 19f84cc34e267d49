package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Unenforced is a limit of a manifest that nothing enforces.
type Unenforced struct {
	// Field is its path, such as spec.volumes[0].emptyDir.sizeLimit.
	Field string
	// Message is a sentence about it, without a full stop.
	Message string
}

// NotEnforced returns the limits of a pod that are accepted but not enforced, in the order of the manifest: for a
// critical pod, the limits that eviction enforces (ADR 040).
func NotEnforced(p *corev1.Pod) []Unenforced {
	if priority(p) < systemCritical {
		return nil
	}
	var out []Unenforced
	for i := range p.Spec.Volumes {
		dir := p.Spec.Volumes[i].EmptyDir
		if dir != nil && dir.Medium == corev1.StorageMediumDefault && dir.SizeLimit != nil && !dir.SizeLimit.IsZero() {
			out = append(out, Unenforced{Field: fmt.Sprintf("spec.volumes[%d].emptyDir.sizeLimit", i),
				Message: "is not enforced: a pod of this priority is not evicted"})
		}
	}
	for _, group := range []struct {
		field string
		list  []corev1.Container
	}{{"initContainers", p.Spec.InitContainers}, {"containers", p.Spec.Containers}} {
		for i := range group.list {
			limit, is := group.list[i].Resources.Limits[corev1.ResourceEphemeralStorage]
			if is && !limit.IsZero() {
				out = append(out, Unenforced{
					Field:   fmt.Sprintf("spec.%s[%d].resources.limits[ephemeral-storage]", group.field, i),
					Message: "is not enforced: a pod of this priority is not evicted",
				})
			}
		}
	}
	return out
}
