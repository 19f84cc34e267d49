package manifest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Fields of the pod that an environment variable can take its value from, besides one label or annotation.
var envFieldPaths = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
	"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}

// oldNodeName is the old name of spec.nodeName, which is still taken and no longer offered.
const oldNodeName = "spec.host"

// Resources of a container that an environment variable can take its value from, and the units it can be counted in.
var (
	cpuDivisors  = []string{"0", "1", "1m"}
	byteDivisors = []string{"0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	envResources = []string{"limits.cpu", "limits.memory", "limits.ephemeral-storage",
		"requests.cpu", "requests.memory", "requests.ephemeral-storage"}
)

// env checks names and references. It never puts a value into a message: that may be a secret.
func (s *containerScope) env(list []corev1.EnvVar, at *field.Path) {
	var errs field.ErrorList
	for i := range list {
		e, p := &list[i], at.Index(i)
		if e.Name == "" {
			errs = append(errs, field.Required(p.Child("name"), ""))
		} else {
			errs = append(errs, syntax(p.Child("name"), e.Name, validation.IsRelaxedEnvVarName)...)
		}
		if e.ValueFrom != nil {
			errs = append(errs, s.envSource(e, p.Child("valueFrom"))...)
		}
	}
	s.report.invalid(errs)
}

func (s *containerScope) envSource(e *corev1.EnvVar, at *field.Path) (errs field.ErrorList) {
	from := e.ValueFrom
	sources := 0
	for _, set := range []bool{from.FieldRef != nil, from.ResourceFieldRef != nil, from.ConfigMapKeyRef != nil,
		from.SecretKeyRef != nil, from.FileKeyRef != nil} {
		if set {
			sources++
		}
	}
	if e.Value != "" {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "cannot be used together with value"))
	}
	if sources != 1 {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("must have one source, has %d", sources)))
	}
	if from.FieldRef != nil {
		errs = append(errs, validateFieldRef(from.FieldRef, envFieldPaths, at.Child("fieldRef"))...)
	}
	if from.ResourceFieldRef != nil {
		errs = append(errs, validateResourceRef(s.spec, from.ResourceFieldRef, at.Child("resourceFieldRef"))...)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		errs = append(errs, validateKeyRef(ref.Name, ref.Key, at.Child("configMapKeyRef"))...)
	}
	if ref := from.SecretKeyRef; ref != nil {
		errs = append(errs, validateKeyRef(ref.Name, ref.Key, at.Child("secretKeyRef"))...)
	}
	if from.FileKeyRef != nil {
		errs = append(errs, s.fileRef(from.FileKeyRef, at.Child("fileKeyRef"))...)
	}
	return errs
}

// validateKeyRef checks a reference to a key of a ConfigMap or a Secret.
func validateKeyRef(name, key string, at *field.Path) field.ErrorList {
	errs := validateObjectName(name, at.Child("name"))
	if key == "" {
		return append(errs, field.Required(at.Child("key"), ""))
	}
	return append(errs, syntax(at.Child("key"), key, validation.IsConfigMapKey)...)
}

func validateObjectName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return syntax(at, name, func(s string) []string { return apivalidation.NameIsDNSSubdomain(s, false) })
}

// fileRef checks a reference to a variable in a file of an emptyDir of the pod.
func (s *containerScope) fileRef(ref *corev1.FileKeySelector, at *field.Path) (errs field.ErrorList) {
	if ref.Key == "" {
		errs = append(errs, field.Required(at.Child("key"), ""))
	} else {
		errs = append(errs, syntax(at.Child("key"), ref.Key, validation.IsRelaxedEnvVarName)...)
	}
	if ref.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), ""))
	}
	errs = append(errs, withoutBacksteps(at.Child("path"), ref.Path)...)
	p := at.Child("volumeName")
	if ref.VolumeName != "" {
		errs = append(errs, syntax(p, ref.VolumeName, validation.IsDNS1123Label)...)
	}
	// Of several volumes of one name, which are reported anyway, the last counts, as in the API server.
	last := -1
	for i := range s.spec.Volumes {
		if s.spec.Volumes[i].Name == ref.VolumeName {
			last = i
		}
	}
	switch {
	case ref.VolumeName == "":
		return append(errs, field.Required(p, ""))
	case last < 0:
		return append(errs, field.NotFound(p, ref.VolumeName))
	case s.spec.Volumes[last].EmptyDir == nil:
		return append(errs, field.Invalid(p, ref.VolumeName, "must be an emptyDir"))
	}
	return errs
}

// envFrom checks the ConfigMaps and Secrets that a container takes all variables from.
func (s *containerScope) envFrom(list []corev1.EnvFromSource, at *field.Path) {
	var errs field.ErrorList
	for i := range list {
		from, p := &list[i], at.Index(i)
		if from.Prefix != "" {
			errs = append(errs, syntax(p.Child("prefix"), from.Prefix, validation.IsRelaxedEnvVarName)...)
		}
		if from.ConfigMapRef != nil {
			errs = append(errs, validateObjectName(from.ConfigMapRef.Name, p.Child("configMapRef", "name"))...)
		}
		if from.SecretRef != nil {
			errs = append(errs, validateObjectName(from.SecretRef.Name, p.Child("secretRef", "name"))...)
		}
		if (from.ConfigMapRef == nil) == (from.SecretRef == nil) {
			errs = append(errs, field.Invalid(p, field.OmitValueType{}, "must have configMapRef or secretRef, and not both"))
		}
	}
	s.report.invalid(errs)
}

// validateFieldRef checks a reference to one of some fields of the pod, or to a label or annotation.
func validateFieldRef(ref *corev1.ObjectFieldSelector, fields []string, at *field.Path) field.ErrorList {
	errs := oneOf(ref.APIVersion, at.Child("apiVersion"), "v1")
	p := at.Child("fieldPath")
	parent, key, indexed := strings.Cut(ref.FieldPath, "['")
	if ref.FieldPath == oldNodeName && slices.Contains(fields, "spec.nodeName") {
		return errs
	}
	if !indexed {
		return append(errs, oneOf(ref.FieldPath, p, append(slices.Clone(fields),
			"metadata.labels['<key>']", "metadata.annotations['<key>']")...)...)
	}
	key, closed := strings.CutSuffix(key, "']")
	switch {
	case !closed || parent != "metadata.labels" && parent != "metadata.annotations":
		return append(errs, field.Invalid(p, ref.FieldPath,
			"a key can be given for metadata.labels['<key>'] and metadata.annotations['<key>'] only"))
	case parent == "metadata.annotations":
		// The API server looks annotations up by their lower-case key.
		key = strings.ToLower(key)
	}
	for _, message := range validation.IsQualifiedName(key) {
		errs = append(errs, field.Invalid(p, ref.FieldPath, message))
	}
	return errs
}

// validateResourceRef checks a reference to a resource of a container of the pod.
func validateResourceRef(spec *corev1.PodSpec, ref *corev1.ResourceFieldSelector, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	kind, name, _ := strings.Cut(ref.Resource, ".")
	if !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) || kind != "limits" && kind != "requests" {
		errs = oneOf(ref.Resource, at.Child("resource"), envResources...)
	}
	divisors := byteDivisors
	if strings.HasSuffix(ref.Resource, ".cpu") {
		divisors = cpuDivisors
	}
	if len(errs) == 0 { // the divisors of an unknown resource are unknown, too
		errs = oneOf(ref.Divisor.String(), at.Child("divisor"), divisors...)
	}
	named := func(c corev1.Container) bool { return c.Name == ref.ContainerName }
	if ref.ContainerName != "" && !slices.ContainsFunc(spec.Containers, named) &&
		!slices.ContainsFunc(spec.InitContainers, named) {
		errs = append(errs, field.NotFound(at.Child("containerName"), ref.ContainerName))
	}
	return errs
}
