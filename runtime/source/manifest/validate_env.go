package manifest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
		errs = append(errs, validateFieldRef(from.FieldRef, at.Child("fieldRef"))...)
	}
	if from.ResourceFieldRef != nil {
		errs = append(errs, s.resourceRef(from.ResourceFieldRef, at.Child("resourceFieldRef"))...)
	}
	return errs
}

func validateFieldRef(ref *corev1.ObjectFieldSelector, at *field.Path) field.ErrorList {
	errs := oneOf(ref.APIVersion, at.Child("apiVersion"), "v1")
	p := at.Child("fieldPath")
	parent, key, indexed := strings.Cut(ref.FieldPath, "['")
	if ref.FieldPath == oldNodeName {
		return errs
	}
	if !indexed {
		return append(errs, oneOf(ref.FieldPath, p, append(slices.Clone(envFieldPaths),
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

func (s *containerScope) resourceRef(ref *corev1.ResourceFieldSelector, at *field.Path) field.ErrorList {
	if _, kind, _ := strings.Cut(ref.Resource, "."); strings.HasPrefix(kind, corev1.ResourceHugePagesPrefix) {
		s.report.notYet(at.Child("resource").String(), "the use of huge pages")
		return nil
	}
	errs := oneOf(ref.Resource, at.Child("resource"), envResources...)
	divisors := byteDivisors
	if strings.HasSuffix(ref.Resource, ".cpu") {
		divisors = cpuDivisors
	}
	errs = append(errs, oneOf(ref.Divisor.String(), at.Child("divisor"), divisors...)...)
	named := func(c corev1.Container) bool { return c.Name == ref.ContainerName }
	if ref.ContainerName != "" && !slices.ContainsFunc(s.spec.Containers, named) &&
		!slices.ContainsFunc(s.spec.InitContainers, named) {
		errs = append(errs, field.NotFound(at.Child("containerName"), ref.ContainerName))
	}
	return errs
}
