package manifest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of a container's restart rules, the API server's (KEP-5307, KEP-5532).
const (
	maxRestartRules = 20
	maxExitCodes    = 255 // of one rule
)

// onlySidecars is the API server's message for a field that only a sidecar may have.
const onlySidecars = "may not be set for init containers without restartPolicy=Always"

// validateInit refuses fields that only a sidecar may have.
func validateInit(c *corev1.Container, at *field.Path) (errs field.ErrorList) {
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return nil
	}
	for i, p := range c.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			errs = append(errs, field.Invalid(at.Child("resizePolicy").Index(i).Child("restartPolicy"), p.RestartPolicy,
				"may be set only for init containers with restartPolicy=Always"))
		}
	}
	if c.Lifecycle != nil {
		errs = append(errs, field.Forbidden(at.Child("lifecycle"), onlySidecars))
	}
	if c.LivenessProbe != nil {
		errs = append(errs, field.Forbidden(at.Child("livenessProbe"), onlySidecars))
	}
	if c.ReadinessProbe != nil {
		errs = append(errs, field.Forbidden(at.Child("readinessProbe"), onlySidecars))
	}
	if c.StartupProbe != nil {
		errs = append(errs, field.Forbidden(at.Child("startupProbe"), onlySidecars))
	}
	return errs
}

// restarts checks a container's own restart policy and its rules.
func (s *containerScope) restarts(c *corev1.Container, at *field.Path) {
	var errs field.ErrorList
	policy, rules := at.Child("restartPolicy"), at.Child("restartPolicyRules")
	if c.RestartPolicy != nil {
		errs = oneOfSupported(*c.RestartPolicy, policy, corev1.ContainerRestartPolicyAlways,
			corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	} else if len(c.RestartPolicyRules) > 0 {
		errs = field.ErrorList{field.Required(policy, "must specify restartPolicy when restart rules are used")}
	}
	if n := len(c.RestartPolicyRules); n > maxRestartRules {
		errs = append(errs, field.TooMany(rules, n, maxRestartRules))
	}
	for i, rule := range c.RestartPolicyRules {
		errs = append(errs, oneOfSupported(rule.Action, rules.Index(i).Child("action"),
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		codes := rules.Index(i).Child("exitCodes")
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(codes, "must be specified"))
			continue
		}
		errs = append(errs, oneOfSupported(rule.ExitCodes.Operator, codes.Child("operator"),
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(rule.ExitCodes.Values); n > maxExitCodes {
			errs = append(errs, field.TooMany(codes.Child("values"), n, maxExitCodes))
		}
	}
	s.report.invalid(errs)
}

// oneOfSupported is oneOf for a field whose empty value the API server reports as unsupported, not as missing.
func oneOfSupported[T ~string](value T, at *field.Path, values ...T) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, values)}
}
