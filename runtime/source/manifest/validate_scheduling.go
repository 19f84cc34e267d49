package manifest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// schedulerFields are the supported fields that only a scheduler reads. They are validated, and have no effect.
var schedulerFields = []string{
	"spec.affinity.podAffinity", "spec.affinity.podAntiAffinity", "spec.topologySpreadConstraints",
	"spec.schedulingGates", "spec.preemptionPolicy",
}

// warnScheduling warns once for each field of the pod that only a scheduler reads.
func warnScheduling(r *report, s *corev1.PodSpec) {
	const message = "has no effect: a pod from a manifest is not scheduled"
	warn := func(at string, set bool) {
		if set {
			r.warn(at, message)
		}
	}
	warn("spec.schedulerName", s.SchedulerName != corev1.DefaultSchedulerName)
	if a := s.Affinity; a != nil {
		warn("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
			a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0)
		warn("spec.affinity.podAffinity", a.PodAffinity != nil)
		warn("spec.affinity.podAntiAffinity", a.PodAntiAffinity != nil)
	}
	warn("spec.topologySpreadConstraints", len(s.TopologySpreadConstraints) > 0)
	warn("spec.schedulingGates", len(s.SchedulingGates) > 0)
	warn("spec.preemptionPolicy", s.PreemptionPolicy != nil)
}

// validateScheduling checks what only a scheduler reads, as the API server does.
func validateScheduling(s *corev1.PodSpec, spec *field.Path) (errs field.ErrorList) {
	if a := s.Affinity; a != nil && a.PodAffinity != nil {
		errs = append(errs, validateTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, spec.Child("affinity", "podAffinity"))...)
	}
	if a := s.Affinity; a != nil && a.PodAntiAffinity != nil {
		errs = append(errs, validateTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, spec.Child("affinity", "podAntiAffinity"))...)
	}
	errs = append(errs, validateSpread(s.TopologySpreadConstraints, spec.Child("topologySpreadConstraints"))...)
	gates := map[string]bool{}
	for i, gate := range s.SchedulingGates {
		at := spec.Child("schedulingGates").Index(i)
		errs = append(errs, syntax(at, gate.Name, validation.IsQualifiedName)...)
		if gates[gate.Name] {
			errs = append(errs, field.Duplicate(at, gate.Name))
		}
		gates[gate.Name] = true
	}
	if p := s.PreemptionPolicy; p != nil {
		errs = append(errs, oneOf(*p, spec.Child("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

// validateTerms checks the required and the preferred terms of an affinity to pods, or against them.
func validateTerms(
	required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, at *field.Path,
) (errs field.ErrorList) {
	for i := range required {
		p := at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i)
		errs = append(errs, validatePodTerm(&required[i], p)...)
	}
	for i := range preferred {
		p := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		if w := preferred[i].Weight; w < 1 || w > maxAffinityWeight {
			errs = append(errs, field.Invalid(p.Child("weight"), w, validation.InclusiveRangeError(1, maxAffinityWeight)))
		}
		errs = append(errs, validatePodTerm(&preferred[i].PodAffinityTerm, p.Child("podAffinityTerm"))...)
	}
	return errs
}

func validatePodTerm(t *corev1.PodAffinityTerm, at *field.Path) field.ErrorList {
	errs := validateSelector(t.LabelSelector, at.Child("labelSelector"))
	errs = append(errs, validateSelector(t.NamespaceSelector, at.Child("namespaceSelector"))...)
	for i, namespace := range t.Namespaces {
		errs = append(errs, syntax(at.Child("namespaces").Index(i), namespace, validation.IsDNS1123Label)...)
	}
	errs = append(errs, validateMatchKeys(t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector, at)...)
	key := at.Child("topologyKey")
	if t.TopologyKey == "" {
		return append(errs, field.Required(key, ""))
	}
	return append(errs, metavalidation.ValidateLabelName(t.TopologyKey, key)...)
}

func validateSelector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)
}

// validateMatchKeys checks the keys of labels whose values a scheduler takes from the pod: they need a selector, which
// must not name the keys that must match, and the two lists share no key.
func validateMatchKeys(
	match, mismatch []string, selector *metav1.LabelSelector, at *field.Path,
) (errs field.ErrorList) {
	for name, keys := range map[string][]string{"matchLabelKeys": match, "mismatchLabelKeys": mismatch} {
		p := at.Child(name)
		if len(keys) > 0 && selector == nil {
			errs = append(errs, field.Forbidden(p, "needs a labelSelector"))
			continue
		}
		for i, key := range keys {
			errs = append(errs, metavalidation.ValidateLabelName(key, p.Index(i))...)
		}
	}
	for i, key := range match {
		p := at.Child("matchLabelKeys").Index(i)
		if slices.Contains(mismatch, key) {
			errs = append(errs, field.Invalid(p, key, "is in mismatchLabelKeys, too"))
		}
		if selector != nil && selectedTwice(selector, key) {
			errs = append(errs, field.Invalid(p, key, "is in the labelSelector, too"))
		}
	}
	return errs
}

// selectedTwice reports whether a selector names a key in an expression after another mention of it. The API server
// adds an expression for each key that must match, and refuses only the key's second mention.
func selectedTwice(s *metav1.LabelSelector, key string) bool {
	_, seen := s.MatchLabels[key]
	for _, e := range s.MatchExpressions {
		if e.Key == key && seen {
			return true
		}
		seen = seen || e.Key == key
	}
	return false
}

func validateSpread(list []corev1.TopologySpreadConstraint, at *field.Path) (errs field.ErrorList) {
	type kind struct {
		key    string
		action corev1.UnsatisfiableConstraintAction
	}
	kinds := map[kind]bool{}
	for i := range list {
		c, p := &list[i], at.Index(i)
		if c.MaxSkew < 1 {
			errs = append(errs, field.Invalid(p.Child("maxSkew"), c.MaxSkew, "must be greater than zero"))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(p.Child("topologyKey"), ""))
		}
		errs = append(errs, oneOfSupported(c.WhenUnsatisfiable, p.Child("whenUnsatisfiable"), corev1.DoNotSchedule,
			corev1.ScheduleAnyway)...)
		this := kind{c.TopologyKey, c.WhenUnsatisfiable}
		if kinds[this] {
			errs = append(errs, field.Duplicate(p.Child("topologyKey"), c.TopologyKey))
		}
		kinds[this] = true
		if n := c.MinDomains; n != nil && *n < 1 {
			errs = append(errs, field.Invalid(p.Child("minDomains"), *n, "must be greater than zero"))
		}
		if c.MinDomains != nil && c.WhenUnsatisfiable != corev1.DoNotSchedule {
			errs = append(errs, field.Invalid(p.Child("minDomains"), *c.MinDomains, "needs whenUnsatisfiable: DoNotSchedule"))
		}
		for name, policy := range map[string]*corev1.NodeInclusionPolicy{
			"nodeAffinityPolicy": c.NodeAffinityPolicy, "nodeTaintsPolicy": c.NodeTaintsPolicy,
		} {
			if policy != nil {
				errs = append(errs, oneOfSupported(*policy, p.Child(name), corev1.NodeInclusionPolicyHonor,
					corev1.NodeInclusionPolicyIgnore)...)
			}
		}
		errs = append(errs, validateMatchKeys(c.MatchLabelKeys, nil, c.LabelSelector, p)...)
		errs = append(errs, validateSelector(c.LabelSelector, p.Child("labelSelector"))...)
	}
	return errs
}
