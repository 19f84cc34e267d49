package manifest

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The annotations that chose a seccomp profile before there were fields, and their values. No kubelet reads them since
// 1.27. Manifests that have them are meant to be confined, so they are carried out here.
const (
	seccompPodKey        = corev1.SeccompPodAnnotationKey
	seccompContainerKey  = corev1.SeccompContainerAnnotationKeyPrefix
	seccompDefault       = "runtime/default"
	seccompDockerDefault = "docker/default"
	seccompUnconfined    = "unconfined"
	seccompLocalPrefix   = "localhost/"
)

// SeccompProfile returns the seccomp profile of a container: its own field's, else its annotation's, else the pod's
// field's, else the pod's annotation's, as the last kubelet that read them; nil for none.
func SeccompProfile(pod *corev1.Pod, c *corev1.Container) *corev1.SeccompProfile {
	if c.SecurityContext != nil && c.SecurityContext.SeccompProfile != nil {
		return c.SecurityContext.SeccompProfile
	}
	if profile := parseSeccomp(pod.Annotations[seccompContainerKey+c.Name]); profile != nil {
		return profile
	}
	if pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.SeccompProfile != nil {
		return pod.Spec.SecurityContext.SeccompProfile
	}
	return parseSeccomp(pod.Annotations[seccompPodKey])
}

// parseSeccomp returns the profile that an annotation's value names; nil for none.
func parseSeccomp(value string) *corev1.SeccompProfile {
	path, local := strings.CutPrefix(value, seccompLocalPrefix)
	switch {
	case value == seccompDefault, value == seccompDockerDefault:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	case value == seccompUnconfined:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	case local:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &path}
	}
	return nil
}

// validateSeccompAnnotations checks the annotations that name seccomp profiles: of the pod or of one of its containers,
// and the same profile as the field beside it.
func validateSeccompAnnotations(pod *corev1.Pod) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		var own *corev1.SeccompProfile
		path := field.NewPath("spec")
		if name, ok := strings.CutPrefix(key, seccompContainerKey); ok {
			c, at := containerNamed(&pod.Spec, name)
			if c == nil {
				errs = append(errs, field.NotFound(field.NewPath("metadata", "annotations").Key(key), name))
				continue
			}
			if path = at; c.SecurityContext != nil {
				own = c.SecurityContext.SeccompProfile
			}
		} else if key != seccompPodKey {
			continue
		} else if pod.Spec.SecurityContext != nil {
			own = pod.Spec.SecurityContext.SeccompProfile
		}
		errs = append(errs, seccompAnnotation(key, pod.Annotations[key], own, path)...)
	}
	return errs
}

func seccompAnnotation(
	key, value string, own *corev1.SeccompProfile, path *field.Path,
) (errs field.ErrorList) {
	at := field.NewPath("metadata", "annotations").Key(key)
	profile := parseSeccomp(value)
	if profile == nil {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{},
			"must be runtime/default, unconfined or localhost/<profile>")}
	}
	if bad := validateSeccomp(profile, at); len(bad) > 0 {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{},
			"must name a profile below the seccomp directory behind localhost/")}
	}
	same := own == nil || own.Type == profile.Type &&
		(own.LocalhostProfile == nil || profile.LocalhostProfile != nil && *own.LocalhostProfile == *profile.LocalhostProfile)
	if !same {
		errs = append(errs, field.Forbidden(path.Child("securityContext", "seccompProfile"),
			"the profile in the field and in the annotation must match"))
	}
	return errs
}

// What was an annotation before it was a field. Kubernetes reads none of them any more. Without its init containers or
// its sysctls a pod is not what its author wrote, so it is refused; the others only warn.
var (
	refusedAnnotations = map[string]string{
		"pod.alpha.kubernetes.io/init-containers":     "spec.initContainers",
		"pod.beta.kubernetes.io/init-containers":      "spec.initContainers",
		"security.alpha.kubernetes.io/sysctls":        "spec.securityContext.sysctls",
		"security.alpha.kubernetes.io/unsafe-sysctls": "spec.securityContext.sysctls",
	}
	deadAnnotations = map[string]string{
		"pod.beta.kubernetes.io/hostname":            "spec.hostname",
		"pod.beta.kubernetes.io/subdomain":           "spec.subdomain",
		"scheduler.alpha.kubernetes.io/affinity":     "spec.affinity",
		"scheduler.alpha.kubernetes.io/tolerations":  "spec.tolerations",
		"scheduler.alpha.kubernetes.io/critical-pod": "spec.priorityClassName",
	}
)

// checkAnnotations refuses annotations that a field has replaced, or warns about them.
func checkAnnotations(r *report, pod *corev1.Pod) {
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		at := "metadata.annotations[" + key + "]"
		switch {
		case refusedAnnotations[key] != "":
			r.addAt(at, CodeInvalid, "is read by no Kubernetes any more", "set "+refusedAnnotations[key])
		case deadAnnotations[key] != "":
			r.warn(at, "has no effect: no Kubernetes reads it any more; set "+deadAnnotations[key])
		case strings.HasPrefix(key, cdiPrefix):
			r.warn(at, "has no effect: name the device in a container's resources.limits, as vendor.com/class=device: 1")
		}
	}
}

// cdiPrefix begins the annotations that pass devices to container engines. They are of containers, not of pods.
const cdiPrefix = "cdi.k8s.io/"
