package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// restarts reports whether a container that does not run is to be started (again), once it may: see mayStart.
func (a *Actor) restarts(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	cur := r.GetCurrent()
	if !exited(cur) || notRun(r) || r.GetReplacing() || r.GetRestartRequested() || a.created(r) != nil ||
		!afterRestartAll(r) {
		return true
	}
	if a.runsToCompletion(c) && cur.GetExitCode() == 0 && !r.GetStoppedAsUnhealthy() {
		// A new sandbox starts with the first init container again.
		return !a.hasInstance(c)
	}
	return a.policyRestarts(c, cur.GetExitCode(), r.GetStoppedAsUnhealthy())
}

// policyRestarts reports whether a container that ended with this exit code is restarted. The first of its own rules
// that matches decides, then its own policy, then the pod's. The exit code of a container that was stopped as unhealthy
// is not its program's: no rule applies, and the container has failed (kubelet: a failed probe restarts unless the
// policy is Never). An ephemeral container is never restarted.
func (a *Actor) policyRestarts(c *corev1.Container, code int32, unhealthy bool) bool {
	if a.isEphemeral(c.Name) {
		return false
	}
	policy := a.manifest.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		if !unhealthy && ruleAction(c, code) == corev1.ContainerRestartRuleActionRestart {
			return true
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return unhealthy || code != 0
	}
	return true
}

// reasonUnknownEnds is the stop reason of a container in an unknown state that its policy does not restart.
const reasonUnknownEnds = "container is in an unknown state"

// unknownReason returns the stop reason of a container in an unknown state. As in the kubelet, the container is
// restarted whatever the policy, unless it must not run twice. No rule applies, since no exit code is known.
func (a *Actor) unknownReason(c *corev1.Container) string {
	if (a.runsToCompletion(c) || a.atMostOnce(c)) && !a.policyRestarts(c, exitStatusUnknown, true) {
		return reasonUnknownEnds
	}
	return reasonUnknown
}

// ruleAction returns the action of the first of a container's rules that matches its exit code (KEP-5307), empty if
// none does.
func ruleAction(c *corev1.Container, code int32) corev1.ContainerRestartRuleAction {
	for _, r := range c.RestartPolicyRules {
		if r.ExitCodes == nil {
			continue
		}
		in := slices.Contains(r.ExitCodes.Values, code)
		switch r.ExitCodes.Operator {
		case corev1.ContainerRestartRuleOnExitCodesOpIn:
			if in {
				return r.Action
			}
		case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
			if !in {
				return r.Action
			}
		}
	}
	return ""
}

// A container of restartPolicy Never runs at most once, whatever dies at which moment. One call creates it and another
// one starts it, so that the journal shows whether its start can have begun. A start in doubt counts as a run. ADR 015
// has the reasons.

// AnnotationStartGuarantee is the annotation of a pod for its containers of restartPolicy Never: what follows from a
// start in doubt.
const AnnotationStartGuarantee = "journalet.io/start-guarantee"

// The values of AnnotationStartGuarantee. AtMostOnce is the default.
const (
	AtMostOnce  = "at-most-once"
	AtLeastOnce = "at-least-once"
)

// never reports whether a container's policy is Never. Its rules may restart it all the same.
func (a *Actor) never(c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyNever
	}
	return a.manifest.Spec.RestartPolicy == corev1.RestartPolicyNever
}

// atMostOnce reports whether no instance of a container may run twice: one of policy Never, or an ephemeral one.
func (a *Actor) atMostOnce(c *corev1.Container) bool {
	return a.isEphemeral(c.Name) || a.never(c) && a.manifest.Annotations[AnnotationStartGuarantee] != AtLeastOnce
}

// afterRestartAll reports whether the newest instance of a container was created after the last restart of all
// containers.
func afterRestartAll(r *journaletv1.ContainerRecord) bool {
	return r.GetCurrent().GetAttempt() >= r.GetRestartedFrom()
}

// mayRestartAll reports whether a container has a rule that restarts all containers.
func mayRestartAll(c *corev1.Container) bool {
	return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
		return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
	})
}
