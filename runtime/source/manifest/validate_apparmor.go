package manifest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/journalet/journalet/actors/apparmor"
)

func validateAppArmor(profile *corev1.AppArmorProfile, at *field.Path) field.ErrorList {
	if profile == nil {
		return nil
	}
	errs := oneOf(profile.Type, at.Child("type"), corev1.AppArmorProfileTypeLocalhost,
		corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	local := at.Child("localhostProfile")
	switch {
	case profile.Type != corev1.AppArmorProfileTypeLocalhost:
		if profile.LocalhostProfile != nil {
			errs = append(errs, field.Invalid(local, *profile.LocalhostProfile, "is only for type Localhost"))
		}
	case profile.LocalhostProfile == nil || strings.TrimSpace(*profile.LocalhostProfile) == "":
		errs = append(errs, field.Required(local, "type Localhost needs it"))
	case strings.TrimSpace(*profile.LocalhostProfile) != *profile.LocalhostProfile:
		errs = append(errs, field.Invalid(local, *profile.LocalhostProfile, "must not begin or end with white space"))
	case len(*profile.LocalhostProfile) > maxPathBytes:
		errs = append(errs, field.TooLong(local, "", maxPathBytes))
	}
	return errs
}

// validateAppArmorAnnotations checks the annotations that name profiles in static pods: each is of a container of the
// pod, and names the same profile as the fields.
func validateAppArmorAnnotations(pod *corev1.Pod) (errs field.ErrorList) {
	named := apparmor.Annotations(pod)
	for _, key := range slices.Sorted(maps.Keys(named)) {
		at, value := field.NewPath("metadata", "annotations").Key(key), named[key]
		profile := apparmor.Parse(value)
		if profile == nil && value != "" {
			errs = append(errs, field.Invalid(at, field.OmitValueType{},
				"must be runtime/default, unconfined or localhost/<profile>"))
		} else if profile != nil && profile.LocalhostProfile != nil && strings.TrimSpace(*profile.LocalhostProfile) == "" {
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "has no profile behind localhost/"))
		}
		c, path := containerNamed(&pod.Spec, strings.TrimPrefix(key, apparmor.AnnotationPrefix))
		if c == nil {
			errs = append(errs, field.NotFound(at, strings.TrimPrefix(key, apparmor.AnnotationPrefix)))
			continue
		}
		var own, ofPod *corev1.AppArmorProfile
		if c.SecurityContext != nil {
			own = c.SecurityContext.AppArmorProfile
		}
		if pod.Spec.SecurityContext != nil {
			ofPod = pod.Spec.SecurityContext.AppArmorProfile
		}
		if has := cmp.Or(own, ofPod); has != nil && apparmor.Annotation(has) != value {
			errs = append(errs, field.Forbidden(path.Child("securityContext", "appArmorProfile"),
				"the profile in the field and in the annotation must match"))
		}
	}
	return errs
}

func containerNamed(spec *corev1.PodSpec, name string) (*corev1.Container, *field.Path) {
	for list, containers := range map[string][]corev1.Container{
		"containers": spec.Containers, "initContainers": spec.InitContainers,
	} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i], field.NewPath("spec", list).Index(i)
			}
		}
	}
	return nil, nil
}
