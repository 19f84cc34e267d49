package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Size returns a container's CPU and memory, for resizes, most often of a Burstable pod.
func (m *Generator) Size() corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(Pick(m, "1m", "2m", "10m", "100m", "100m", "250m", "1")),
		corev1.ResourceMemory: resource.MustParse(Pick(m, "16Mi", "32Mi", "32Mi")),
	}}
	if m.Chance(80) {
		r.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(Pick(m, "64Mi", "64Mi", "128Mi", "256Mi"))}
		if m.Chance(80) {
			r.Limits[corev1.ResourceCPU] = resource.MustParse(Pick(m, "1", "1500m", "2"))
		}
	}
	return r
}
