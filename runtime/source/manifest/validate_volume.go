package manifest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateVolumes checks the pod's volumes and returns the set of their names.
func validateVolumes(r *report, spec *corev1.PodSpec, at *field.Path) map[string]bool {
	names := map[string]bool{}
	var errs field.ErrorList
	scope := volumeScope{spec: spec}
	for i := range spec.Volumes {
		v, p := &spec.Volumes[i], at.Index(i)
		errs = append(errs, uniqueLabel(v.Name, p.Child("name"), names)...)
		errs = append(errs, scope.source(&v.VolumeSource, p)...)
	}
	r.invalid(errs)
	return names
}

// source checks the supported sources of a volume. A volume may have one source.
func (s *volumeScope) source(v *corev1.VolumeSource, at *field.Path) (errs field.ErrorList) {
	first := ""
	one := func(set bool, name string, check func(*field.Path) field.ErrorList) {
		switch {
		case !set:
		case first != "":
			errs = append(errs, field.Forbidden(at.Child(name), "a volume has one type, and this one has "+first))
		default:
			first = name
			errs = append(errs, check(at.Child(name))...)
		}
	}
	one(v.EmptyDir != nil, "emptyDir", func(p *field.Path) field.ErrorList { return validateEmptyDir(v.EmptyDir, p) })
	one(v.HostPath != nil, "hostPath", func(p *field.Path) field.ErrorList { return validateHostPath(v.HostPath, p) })
	one(v.Secret != nil, "secret", func(p *field.Path) field.ErrorList {
		errs := append(named(v.Secret.SecretName, p.Child("secretName")), validateItems(v.Secret.Items, p.Child("items"))...)
		return append(errs, validateMode(v.Secret.DefaultMode, p.Child("defaultMode"))...)
	})
	one(v.DownwardAPI != nil, "downwardAPI", func(p *field.Path) field.ErrorList {
		errs := s.downwardFiles(v.DownwardAPI.Items, p.Child("items"))
		return append(errs, validateMode(v.DownwardAPI.DefaultMode, p.Child("defaultMode"))...)
	})
	one(v.ConfigMap != nil, "configMap", func(p *field.Path) field.ErrorList {
		errs := append(named(v.ConfigMap.Name, p.Child("name")), validateItems(v.ConfigMap.Items, p.Child("items"))...)
		return append(errs, validateMode(v.ConfigMap.DefaultMode, p.Child("defaultMode"))...)
	})
	one(v.Projected != nil, "projected", func(p *field.Path) field.ErrorList { return s.projected(v.Projected, p) })
	one(v.NFS != nil, "nfs", func(p *field.Path) field.ErrorList { return validateNFS(v.NFS, p) })
	one(v.Image != nil, "image", func(p *field.Path) field.ErrorList { return validateImageVolume(v.Image, p) })
	return errs
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

func validateEmptyDir(dir *corev1.EmptyDirVolumeSource, at *field.Path) (errs field.ErrorList) {
	switch size, huge := strings.CutPrefix(string(dir.Medium), string(corev1.StorageMediumHugePagesPrefix)); {
	case dir.Medium == corev1.StorageMediumDefault, dir.Medium == corev1.StorageMediumMemory,
		dir.Medium == corev1.StorageMediumHugePages:
	case huge:
		if q, err := resource.ParseQuantity(size); err != nil || q.Sign() <= 0 {
			errs = append(errs, field.Invalid(at.Child("medium"), dir.Medium, "must end in a page size, such as HugePages-2Mi"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("medium"), dir.Medium, []corev1.StorageMedium{
			corev1.StorageMediumDefault, corev1.StorageMediumMemory, corev1.StorageMediumHugePages, "HugePages-<size>"}))
	}
	if dir.SizeLimit != nil {
		errs = append(errs, validateQuantity(corev1.ResourceEphemeralStorage, *dir.SizeLimit, at.Child("sizeLimit"))...)
	}
	return errs
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

// validateNFS is the API server's check. The set-up refuses more: what mount(8) would not take as a server.
func validateNFS(v *corev1.NFSVolumeSource, at *field.Path) (errs field.ErrorList) {
	if v.Server == "" {
		errs = append(errs, field.Required(at.Child("server"), ""))
	}
	switch {
	case v.Path == "":
		errs = append(errs, field.Required(at.Child("path"), ""))
	case !strings.HasPrefix(v.Path, "/"):
		errs = append(errs, field.Invalid(at.Child("path"), v.Path, "must be an absolute path"))
	}
	return errs
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
		errs = append(errs, descending(p.Child("subPath"), m.SubPath)...)
		errs = append(errs, descending(p.Child("subPathExpr"), m.SubPathExpr)...)
		if m.SubPath != "" && m.SubPathExpr != "" {
			errs = append(errs, field.Invalid(p.Child("subPathExpr"), m.SubPathExpr, "cannot be used together with subPath"))
		}
		errs = append(errs, validateRecursive(&m, p.Child("recursiveReadOnly"))...)
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

// validateRecursive checks that a mount that is read-only with all mounts below it is read-only itself, and gets no
// mounts from the host.
func validateRecursive(m *corev1.VolumeMount, at *field.Path) (errs field.ErrorList) {
	if m.RecursiveReadOnly == nil {
		return nil
	}
	errs = oneOfSupported(*m.RecursiveReadOnly, at, corev1.RecursiveReadOnlyDisabled,
		corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled)
	if len(errs) > 0 || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return errs
	}
	if !m.ReadOnly {
		errs = append(errs, field.Forbidden(at, "needs readOnly: true"))
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		errs = append(errs, field.Forbidden(at, "needs mountPropagation None, or none"))
	}
	return errs
}

func isPrivileged(c *corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}
