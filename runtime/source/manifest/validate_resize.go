package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resizes checks a container's resize policy, as the API server does (validateResizePolicy).
func (s *containerScope) resizes(c *corev1.Container, at *field.Path) {
	var errs field.ErrorList
	seen := map[corev1.ResourceName]bool{}
	for i, p := range c.ResizePolicy {
		name, policy := at.Index(i).Child("resourceName"), at.Index(i).Child("restartPolicy")
		if seen[p.ResourceName] {
			errs = append(errs, field.Duplicate(name, p.ResourceName))
		}
		seen[p.ResourceName] = true
		if p.ResourceName == "" {
			errs = append(errs, field.Required(name, ""))
		} else {
			errs = append(errs, oneOfSupported(p.ResourceName, name, corev1.ResourceCPU, corev1.ResourceMemory)...)
		}
		if p.RestartPolicy == "" {
			errs = append(errs, field.Required(policy, ""))
		} else {
			errs = append(errs, oneOfSupported(p.RestartPolicy, policy, corev1.NotRequired, corev1.RestartContainer)...)
		}
		if s.spec.RestartPolicy == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(policy, p.RestartPolicy,
				"must be NotRequired when the pod's restartPolicy is Never"))
		}
	}
	s.report.invalid(errs)
}
