package apparmor

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationPrefix is the beginning of the annotation's name; the container's name follows it.
const AnnotationPrefix = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix

// Profile returns the profile of a container: its own field's, else its annotation's, else the pod's; nil for none,
// which leaves the choice to the runtime. (kubelet: pkg/security/apparmor.)
func Profile(p *corev1.Pod, c *corev1.Container) *corev1.AppArmorProfile {
	if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return c.SecurityContext.AppArmorProfile
	}
	if value, set := p.Annotations[AnnotationPrefix+c.Name]; set {
		if profile := Parse(value); profile != nil {
			return profile
		}
	}
	return ofPod(p)
}

func ofPod(p *corev1.Pod) *corev1.AppArmorProfile {
	if p.Spec.SecurityContext == nil {
		return nil
	}
	return p.Spec.SecurityContext.AppArmorProfile
}

// Parse returns the profile that an annotation's value names; nil for none.
func Parse(value string) *corev1.AppArmorProfile {
	name, local := strings.CutPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	switch {
	case value == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case value == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case local:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// Annotation returns a profile as an annotation's value, which is also its old name in CRI.
func Annotation(profile *corev1.AppArmorProfile) string {
	switch profile.Type {
	case corev1.AppArmorProfileTypeRuntimeDefault:
		return corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeUnconfined:
		return corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeLocalhost:
		if profile.LocalhostProfile != nil {
			return corev1.DeprecatedAppArmorBetaProfileNamePrefix + *profile.LocalhostProfile
		}
	}
	return ""
}

// Required reports whether a pod names any profile but Unconfined, even if no container uses that profile. Such a pod
// must not run on a node without AppArmor.
func Required(p *corev1.Pod) bool {
	confines := func(profile *corev1.AppArmorProfile) bool {
		return profile != nil && profile.Type != corev1.AppArmorProfileTypeUnconfined
	}
	if confines(ofPod(p)) {
		return true
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if sc := list[i].SecurityContext; sc != nil && confines(sc.AppArmorProfile) {
				return true
			}
		}
	}
	named := Annotations(p)
	for _, key := range slices.Sorted(maps.Keys(named)) {
		if named[key] != corev1.DeprecatedAppArmorBetaProfileNameUnconfined {
			return true
		}
	}
	return false
}

// Annotations returns the pod's annotations of this kind. The API server lets none of them change.
func Annotations(p *corev1.Pod) map[string]string {
	all := maps.Clone(p.Annotations)
	maps.DeleteFunc(all, func(key, _ string) bool { return !strings.HasPrefix(key, AnnotationPrefix) })
	return all
}
