package manifest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of the API server's validation of volumes that hold objects.
const (
	maxFileMode     = 0o777
	minTokenSeconds = 10 * 60
	maxTokenSeconds = 1 << 32

	// maxSignerPathBytes is a DNS subdomain, a label, and a dot between them.
	maxSignerPathBytes = validation.DNS1123SubdomainMaxLength + 1 + validation.DNS1123LabelMaxLength
)

// downwardFields are the fields of the pod that a file can hold, besides one label or annotation.
var downwardFields = []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations",
	"metadata.uid"}

func validateMode(mode *int32, at *field.Path) field.ErrorList {
	if mode == nil || *mode >= 0 && *mode <= maxFileMode {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *mode, "must be a file mode from 0 to 0777 (511 in decimal)")}
}

// named checks the name of an object that a volume holds. As in the API server, any name is taken that is not empty.
func named(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

func validateItems(items []corev1.KeyToPath, at *field.Path) (errs field.ErrorList) {
	for i, item := range items {
		p := at.Index(i)
		if item.Key == "" {
			errs = append(errs, field.Required(p.Child("key"), ""))
		}
		errs = append(errs, validateFilePath(item.Path, p.Child("path"))...)
		errs = append(errs, validateMode(item.Mode, p.Child("mode"))...)
	}
	return errs
}

// validateFilePath checks the path of a file in a volume: relative, without "..", and not the name of the links by
// which the volume is updated, which begin with "..".
func validateFilePath(path string, at *field.Path) field.ErrorList {
	if path == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := descending(at, path)
	if strings.HasPrefix(path, "..") && !strings.HasPrefix(path, "../") && path != ".." {
		errs = append(errs, field.Invalid(at, path, "must not start with '..'"))
	}
	return errs
}

// descending checks a path that must stay below its directory.
func descending(at *field.Path, path string) (errs field.ErrorList) {
	if strings.HasPrefix(path, "/") {
		errs = append(errs, field.Invalid(at, path, "must be a relative path"))
	}
	return append(errs, withoutBacksteps(at, path)...)
}

// volumeScope is the context of the rules of one volume.
type volumeScope struct {
	spec  *corev1.PodSpec
	paths map[string]bool // of files of a projected volume so far
}

func (s *volumeScope) downwardFiles(files []corev1.DownwardAPIVolumeFile, at *field.Path) (errs field.ErrorList) {
	for i := range files {
		f, p := &files[i], at.Index(i)
		errs = append(errs, validateFilePath(f.Path, p.Child("path"))...)
		errs = append(errs, validateMode(f.Mode, p.Child("mode"))...)
		switch {
		case f.FieldRef != nil:
			errs = append(errs, validateFieldRef(f.FieldRef, downwardFields, p.Child("fieldRef"))...)
			if f.ResourceFieldRef != nil {
				errs = append(errs, field.Invalid(p, field.OmitValueType{}, "must have fieldRef or resourceFieldRef, and not both"))
			}
		case f.ResourceFieldRef != nil:
			if f.ResourceFieldRef.ContainerName == "" {
				errs = append(errs, field.Required(p.Child("resourceFieldRef", "containerName"), ""))
			}
			errs = append(errs, validateResourceRef(s.spec, f.ResourceFieldRef, p.Child("resourceFieldRef"))...)
		default:
			errs = append(errs, field.Required(p, "needs fieldRef or resourceFieldRef"))
		}
	}
	return errs
}

func (s *volumeScope) projected(v *corev1.ProjectedVolumeSource, at *field.Path) field.ErrorList {
	errs := validateMode(v.DefaultMode, at.Child("defaultMode"))
	s.paths = map[string]bool{}
	for i := range v.Sources {
		source, p := &v.Sources[i], at.Child("sources").Index(i)
		sources := 0
		add := func(set bool, check func() field.ErrorList) {
			if set {
				sources++
				errs = append(errs, check()...)
			}
		}
		add(source.Secret != nil, func() field.ErrorList {
			q := p.Child("secret")
			return append(named(source.Secret.Name, q.Child("name")), s.items(source.Secret.Items, q.Child("items"))...)
		})
		add(source.ConfigMap != nil, func() field.ErrorList {
			q := p.Child("configMap")
			return append(named(source.ConfigMap.Name, q.Child("name")), s.items(source.ConfigMap.Items, q.Child("items"))...)
		})
		add(source.DownwardAPI != nil, func() field.ErrorList {
			q := p.Child("downwardAPI", "items")
			errs := s.downwardFiles(source.DownwardAPI.Items, q)
			for j, file := range source.DownwardAPI.Items {
				errs = append(errs, s.unique(file.Path, q.Index(j).Child("path"))...)
			}
			return errs
		})
		add(source.ServiceAccountToken != nil, func() field.ErrorList {
			return validateToken(source.ServiceAccountToken, p.Child("serviceAccountToken"))
		})
		add(source.ClusterTrustBundle != nil, func() field.ErrorList {
			return s.trustBundle(source.ClusterTrustBundle, p.Child("clusterTrustBundle"))
		})
		add(source.PodCertificate != nil, func() field.ErrorList { return nil }) // refused by staticVolume
		switch {
		case sources > 1:
			errs = append(errs, field.Forbidden(p, "must have one kind of source"))
		case sources == 0:
			errs = append(errs, field.Required(p, "needs a source, such as configMap, secret or downwardAPI"))
		}
	}
	return errs
}

func (s *volumeScope) items(items []corev1.KeyToPath, at *field.Path) field.ErrorList {
	errs := validateItems(items, at)
	for i, item := range items {
		errs = append(errs, s.unique(item.Path, at.Index(i).Child("path"))...)
	}
	return errs
}

// unique refuses a path that another source of the volume has. The API server does not compare the paths of tokens.
func (s *volumeScope) unique(path string, at *field.Path) field.ErrorList {
	if path == "" {
		return nil
	}
	if s.paths[path] {
		return field.ErrorList{field.Invalid(at, path, "another source of this volume has the same path")}
	}
	s.paths[path] = true
	return nil
}

func validateToken(t *corev1.ServiceAccountTokenProjection, at *field.Path) field.ErrorList {
	errs := validateFilePath(t.Path, at.Child("path"))
	if *t.ExpirationSeconds < minTokenSeconds || *t.ExpirationSeconds > maxTokenSeconds {
		errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *t.ExpirationSeconds,
			validation.InclusiveRangeError(minTokenSeconds, maxTokenSeconds)))
	}
	return errs
}

func (s *volumeScope) trustBundle(b *corev1.ClusterTrustBundleProjection, at *field.Path) field.ErrorList {
	errs := validateFilePath(b.Path, at.Child("path"))
	errs = append(errs, s.unique(b.Path, at.Child("path"))...)
	switch {
	case b.Name != nil && b.SignerName != nil:
		return append(errs, field.Invalid(at, field.OmitValueType{}, "must have name or signerName, and not both"))
	case b.Name != nil:
		errs = append(errs, validateBundleName(*b.Name, at.Child("name"))...)
		if b.LabelSelector != nil {
			errs = append(errs, field.Invalid(at.Child("labelSelector"), field.OmitValueType{}, "goes with signerName only"))
		}
		return errs
	case b.SignerName != nil:
		errs = append(errs, validateSigner(*b.SignerName, at.Child("signerName"))...)
		return append(errs, metavalidation.ValidateLabelSelector(b.LabelSelector,
			metavalidation.LabelSelectorValidationOptions{}, at.Child("labelSelector"))...)
	}
	return append(errs, field.Required(at, "needs name or signerName"))
}

// validateBundleName checks the name of a bundle: a DNS subdomain, after the signer and a colon if it has one.
func validateBundleName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	signer, own := "", name
	if i := strings.LastIndex(name, ":"); i >= 0 {
		signer, own = name[:i], name[i+1:]
	}
	if strings.Contains(signer, "/") {
		return field.ErrorList{field.Invalid(at, name, "must have ':' instead of '/' in the signer's name")}
	}
	return syntax(at, own, func(s string) []string { return apivalidation.NameIsDNSSubdomain(s, false) })
}

// validateSigner checks the name of a signer: a domain of two labels or more, a slash, and a path of labels with dots.
func validateSigner(name string, at *field.Path) (errs field.ErrorList) {
	domain, path, found := strings.Cut(name, "/")
	switch {
	case name == "":
		return field.ErrorList{field.Required(at, "")}
	case !found || strings.Contains(path, "/") || !strings.Contains(domain, "."):
		return field.ErrorList{field.Invalid(at, name, "must be a domain and a path, such as example.com/signer")}
	}
	if len(domain) > validation.DNS1123SubdomainMaxLength || len(path) > maxSignerPathBytes {
		errs = append(errs, field.TooLong(at, "", validation.DNS1123SubdomainMaxLength+1+maxSignerPathBytes))
	}
	for label := range strings.SplitSeq(domain, ".") {
		errs = append(errs, syntax(at, label, validation.IsDNS1123Label)...)
	}
	for label := range strings.SplitSeq(path, ".") {
		errs = append(errs, syntax(at, label, validation.IsDNS1123Subdomain)...)
	}
	return errs
}

func validateImageVolume(v *corev1.ImageVolumeSource, at *field.Path) field.ErrorList {
	errs := validateImage(v.Reference, at.Child("reference"))
	return append(errs, oneOf(v.PullPolicy, at.Child("pullPolicy"),
		corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
}
