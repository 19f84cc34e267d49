package manifest

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxAffinityWeight is the API's maximum weight of a preference.
const maxAffinityWeight = 100

// validateNodeChoice checks only the form. Admission decides whether this node matches, also for a valid term that can
// match no node.
func validateNodeChoice(s *corev1.PodSpec, spec *field.Path) field.ErrorList {
	errs := validateLabels(s.NodeSelector, spec.Child("nodeSelector"))
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil {
		return errs
	}
	at := spec.Child("affinity", "nodeAffinity")
	if required := s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		p := at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		if len(required.NodeSelectorTerms) == 0 {
			errs = append(errs, field.Required(p, "needs at least one term"))
		}
		for i := range required.NodeSelectorTerms {
			errs = append(errs, validateTerm(&required.NodeSelectorTerms[i], true, p.Index(i))...)
		}
	}
	p := at.Child("preferredDuringSchedulingIgnoredDuringExecution")
	for i := range s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		term := &s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
		if term.Weight < 1 || term.Weight > maxAffinityWeight {
			errs = append(errs, field.Invalid(p.Index(i).Child("weight"), term.Weight,
				validation.InclusiveRangeError(1, maxAffinityWeight)))
		}
		errs = append(errs, validateTerm(&term.Preference, false, p.Index(i).Child("preference"))...)
	}
	return errs
}

// validateTerm checks one term. With values, its values must be valid label values; a preference may have others.
func validateTerm(term *corev1.NodeSelectorTerm, values bool, at *field.Path) (errs field.ErrorList) {
	for i := range term.MatchExpressions {
		q, p := &term.MatchExpressions[i], at.Child("matchExpressions").Index(i)
		errs = append(errs, validateOperator(q, p)...)
		errs = append(errs, metavalidation.ValidateLabelName(q.Key, p.Child("key"))...)
		for j, v := range q.Values {
			if values {
				errs = append(errs, syntax(p.Child("values").Index(j), v, validation.IsValidLabelValue)...)
			}
		}
	}
	for i := range term.MatchFields {
		q, p := &term.MatchFields[i], at.Child("matchFields").Index(i)
		errs = append(errs, oneOf(q.Operator, p.Child("operator"), corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn)...)
		if q.Operator == corev1.NodeSelectorOpIn || q.Operator == corev1.NodeSelectorOpNotIn {
			errs = append(errs, wantValues(q, 1, p)...)
		}
		if q.Key != metav1.ObjectNameField {
			errs = append(errs, oneOf(q.Key, p.Child("key"), metav1.ObjectNameField)...)
			continue
		}
		for j, v := range q.Values {
			for _, message := range apivalidation.NameIsDNSSubdomain(v, false) {
				errs = append(errs, field.Invalid(p.Child("values").Index(j), v, message))
			}
		}
	}
	return errs
}

// validateOperator checks that an operator has as many values as it needs.
func validateOperator(q *corev1.NodeSelectorRequirement, at *field.Path) field.ErrorList {
	switch q.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		return wantValues(q, len(q.Values), at)
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		return wantValues(q, 1, at)
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(q.Values) > 0 {
			return field.ErrorList{field.Forbidden(at.Child("values"), "operators Exists and DoesNotExist take no values")}
		}
		return nil
	}
	return oneOf(q.Operator, at.Child("operator"), corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn,
		corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)
}

// wantValues checks that there are n values, and at least one.
func wantValues(q *corev1.NodeSelectorRequirement, n int, at *field.Path) field.ErrorList {
	switch {
	case len(q.Values) == 0:
		return field.ErrorList{field.Required(at.Child("values"), "operator "+string(q.Operator)+" needs a value")}
	case len(q.Values) != n:
		return field.ErrorList{field.Invalid(at.Child("values"), len(q.Values),
			"operator "+string(q.Operator)+" takes one value")}
	}
	return nil
}
