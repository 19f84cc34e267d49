package manifest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateVolumes checks the pod's volumes and returns the set of their names.
func validateVolumes(r *report, volumes []corev1.Volume, at *field.Path) map[string]bool {
	names := map[string]bool{}
	var errs field.ErrorList
	for i := range volumes {
		v, p := &volumes[i], at.Index(i)
		errs = append(errs, uniqueLabel(v.Name, p.Child("name"), names)...)
		if v.EmptyDir != nil && v.HostPath != nil {
			errs = append(errs, field.Forbidden(p.Child("hostPath"), "a volume has one type, and this one is an emptyDir"))
		}
		if v.EmptyDir != nil {
			validateEmptyDir(r, v.EmptyDir, p.Child("emptyDir"))
		}
		if v.HostPath != nil {
			errs = append(errs, validateHostPath(v.HostPath, p.Child("hostPath"))...)
		}
	}
	r.invalid(errs)
	return names
}

// uniqueLabel checks a name that must be a DNS label and not in names yet, and adds it.
func uniqueLabel(name string, at *field.Path, names map[string]bool) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(at, "")}
	case names[name]:
		return field.ErrorList{field.Duplicate(at, name)}
	}
	names[name] = true
	return syntax(at, name, validation.IsDNS1123Label)
}

func validateEmptyDir(r *report, dir *corev1.EmptyDirVolumeSource, at *field.Path) {
	switch {
	case dir.Medium == corev1.StorageMediumDefault || dir.Medium == corev1.StorageMediumMemory:
	case strings.HasPrefix(string(dir.Medium), string(corev1.StorageMediumHugePages)):
		r.notYet(at.Child("medium").String(), "the use of huge pages")
	default:
		r.invalid(field.ErrorList{field.NotSupported(at.Child("medium"), dir.Medium,
			[]corev1.StorageMedium{corev1.StorageMediumDefault, corev1.StorageMediumMemory})})
	}
	if dir.SizeLimit != nil {
		r.invalid(validateQuantity(corev1.ResourceEphemeralStorage, *dir.SizeLimit, at.Child("sizeLimit")))
	}
}

func validateHostPath(h *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	errs := withoutBacksteps(at.Child("path"), h.Path)
	if h.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), ""))
	}
	if *h.Type == corev1.HostPathUnset {
		return errs
	}
	return append(errs, oneOf(*h.Type, at.Child("type"), corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
		corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev,
		corev1.HostPathBlockDev)...)
}

func withoutBacksteps(at *field.Path, path string) field.ErrorList {
	for _, step := range strings.Split(path, "/") {
		if step == ".." {
			return field.ErrorList{field.Invalid(at, path, "must not contain '..'")}
		}
	}
	return nil
}

func validateMounts(c *corev1.Container, volumes map[string]bool, at *field.Path) (errs field.ErrorList) {
	paths := map[string]bool{}
	for i, m := range c.VolumeMounts {
		p := at.Index(i)
		if m.Name == "" {
			errs = append(errs, field.Required(p.Child("name"), ""))
		} else if !volumes[m.Name] {
			errs = append(errs, field.NotFound(p.Child("name"), m.Name))
		}
		if m.MountPath == "" {
			errs = append(errs, field.Required(p.Child("mountPath"), ""))
		} else if paths[m.MountPath] {
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must be unique"))
		}
		paths[m.MountPath] = true
		if m.MountPropagation == nil {
			continue
		}
		propagation := p.Child("mountPropagation")
		errs = append(errs, oneOf(*m.MountPropagation, propagation, corev1.MountPropagationNone,
			corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional)...)
		if *m.MountPropagation == corev1.MountPropagationBidirectional && !isPrivileged(c) {
			errs = append(errs, field.Forbidden(propagation, "Bidirectional is for privileged containers only"))
		}
	}
	return errs
}

func isPrivileged(c *corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}
