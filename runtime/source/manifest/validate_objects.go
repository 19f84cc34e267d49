package manifest

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxDataBytes bounds the data of a ConfigMap or a Secret, keys not counted. It is Kubernetes' bound.
	maxDataBytes = corev1.MaxSecretSize
	// maxTrustBundleBytes bounds a trust bundle. It is Kubernetes' bound.
	maxTrustBundleBytes = 1 << 20
	// highestPriority is Kubernetes' bound of the value of a class of users.
	highestPriority = 1000000000
)

var (
	metadataPath = field.NewPath("metadata")
	dataPath     = field.NewPath("data")
)

func validateObjectMeta(r *report, o metav1.Object, namespaced bool, name apivalidation.ValidateNameFunc) {
	if namespaced && o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	r.invalid(apivalidation.ValidateObjectMetaAccessor(o, namespaced, name, metadataPath))
}

func validateConfigMap(r *report, c *corev1.ConfigMap) {
	validateObjectMeta(r, c, true, apivalidation.NameIsDNSSubdomain)
	var errs field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		errs = append(errs, validateKey(dataPath, key)...)
		if _, twice := c.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(dataPath.Key(key), key, "is a key of binaryData too"))
		}
		size += len(c.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(c.BinaryData)) {
		errs = append(errs, validateKey(field.NewPath("binaryData"), key)...)
		size += len(c.BinaryData[key])
	}
	r.invalid(append(errs, validateSize(dataPath, size)...))
}

// validateKey checks a key of data, which is no secret: it is the name of a file.
func validateKey(at *field.Path, key string) (errs field.ErrorList) {
	for _, message := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(at.Key(key), key, message))
	}
	return errs
}

func validateSize(at *field.Path, size int) field.ErrorList {
	if size > maxDataBytes {
		return field.ErrorList{field.TooLong(at, "", maxDataBytes)}
	}
	return nil
}

// secretKeys are the keys that a type of Secret requires: all of them unless any.
var secretKeys = map[corev1.SecretType]struct {
	keys []string
	any  bool
}{
	corev1.SecretTypeDockercfg:        {keys: []string{corev1.DockerConfigKey}},
	corev1.SecretTypeDockerConfigJson: {keys: []string{corev1.DockerConfigJsonKey}},
	corev1.SecretTypeBasicAuth: {keys: []string{corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey},
		any: true},
	corev1.SecretTypeSSHAuth: {keys: []string{corev1.SSHAuthPrivateKey}},
	corev1.SecretTypeTLS:     {keys: []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey}},
}

// validateSecret merges stringData into data first, as the API server does.
func validateSecret(r *report, s *corev1.Secret) {
	for key, value := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(value)
	}
	if s.StringData = nil; s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
	validateObjectMeta(r, s, true, apivalidation.NameIsDNSSubdomain)
	var errs field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		errs = append(errs, validateKey(dataPath, key)...)
		size += len(s.Data[key])
	}
	errs = append(errs, validateSize(dataPath, size)...)
	r.invalid(append(errs, validateSecretType(s)...))
}

func validateSecretType(s *corev1.Secret) (errs field.ErrorList) {
	if s.Type == corev1.SecretTypeServiceAccountToken && s.Annotations[corev1.ServiceAccountNameKey] == "" {
		return field.ErrorList{field.Required(metadataPath.Child("annotations").Key(corev1.ServiceAccountNameKey), "")}
	}
	want := secretKeys[s.Type]
	for _, key := range want.keys {
		value, has := s.Data[key]
		switch {
		case has && want.any:
			return nil
		case !has, s.Type == corev1.SecretTypeSSHAuth && len(value) == 0:
			errs = append(errs, field.Required(dataPath.Key(key), ""))
		case s.Type == corev1.SecretTypeDockercfg, s.Type == corev1.SecretTypeDockerConfigJson:
			if json.Unmarshal(value, &map[string]any{}) != nil {
				errs = append(errs, field.Invalid(dataPath.Key(key), field.OmitValueType{}, "is no JSON object"))
			}
		}
	}
	return errs
}

func validateServiceAccount(r *report, a *corev1.ServiceAccount) {
	validateObjectMeta(r, a, true, apivalidation.NameIsDNSSubdomain)
}

func validatePriorityClass(r *report, c *schedulingv1.PriorityClass) {
	validateObjectMeta(r, c, false, apivalidation.NameIsDNSSubdomain)
	var errs field.ErrorList
	if strings.HasPrefix(c.Name, "system-") {
		if value, known := priorityOf(c.Name); !known || value != c.Value || c.GlobalDefault {
			errs = append(errs, field.Forbidden(metadataPath.Child("name"), "the prefix system- is reserved for Kubernetes"))
		}
	} else if c.Value > highestPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"), fmt.Sprintf("must be at most %d", highestPriority)))
	}
	if c.GlobalDefault {
		r.notYet("globalDefault", "a priority for pods that name no class")
	}
	if p := c.PreemptionPolicy; p != nil {
		errs = append(errs, oneOf(*p, field.NewPath("preemptionPolicy"), corev1.PreemptLowerPriority,
			corev1.PreemptNever)...)
	}
	r.invalid(errs)
}

func validateTrustBundle(r *report, b *certificatesv1.ClusterTrustBundle) {
	name := apivalidation.NameIsDNSSubdomain
	signer := field.NewPath("spec", "signerName")
	var errs field.ErrorList
	if b.Spec.SignerName != "" {
		domain, path, _ := strings.Cut(b.Spec.SignerName, "/")
		prefix := strings.ReplaceAll(b.Spec.SignerName, "/", ":") + ":"
		if len(validation.IsDNS1123Subdomain(domain)) > 0 || path == "" {
			errs = append(errs, field.Invalid(signer, b.Spec.SignerName, "must be a domain, a slash and a path"))
		}
		name = func(text string, generated bool) []string {
			rest, ok := strings.CutPrefix(text, prefix)
			if !ok {
				return []string{fmt.Sprintf("must begin with %q, because the bundle has a signer", prefix)}
			}
			return apivalidation.NameIsDNSSubdomain(rest, generated)
		}
	}
	validateObjectMeta(r, b, false, name)
	r.invalid(append(errs, validateCertificates(field.NewPath("spec", "trustBundle"), b.Spec.TrustBundle)...))
}

// validateCertificates checks that a text has certificates of authorities in PEM, each once, and nothing else in PEM.
func validateCertificates(at *field.Path, text string) (errs field.ErrorList) {
	if len(text) > maxTrustBundleBytes {
		return field.ErrorList{field.TooLong(at, "", maxTrustBundleBytes)}
	}
	first := map[string]int{}
	rest := []byte(text)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		why := certificateFault(block)
		if before, twice := first[string(block.Bytes)]; twice && why == "" {
			why = fmt.Sprintf("is the same as entry %d", before)
		}
		first[string(block.Bytes)] = i
		if why != "" {
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("entry %d %s", i, why)))
		}
	}
	if len(first) == 0 {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "has no certificate in PEM"))
	}
	return errs
}

func certificateFault(block *pem.Block) string {
	switch {
	case block.Type != "CERTIFICATE":
		return "is no CERTIFICATE"
	case len(block.Headers) > 0:
		return "has PEM headers"
	}
	c, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "is no X.509 certificate"
	case !c.IsCA || !c.BasicConstraintsValid:
		return "is not the certificate of an authority (CA)"
	}
	return ""
}
