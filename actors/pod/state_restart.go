package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// A container that its policy starts once runs at most once in each of its instances, whatever dies at which moment. It is
// made by one call and started by another one, so that the journal tells whether its start can have begun; a start in doubt
// that cannot be told counts as a run. ADR 015 has the reasons.

// AnnotationStartGuarantee of a pod says what holds for containers of restartPolicy Never when a start is in doubt.
const AnnotationStartGuarantee = "journalet.io/start-guarantee"

// The values of AnnotationStartGuarantee. AtMostOnce holds for a pod that does not say.
const (
	AtMostOnce  = "at-most-once"
	AtLeastOnce = "at-least-once"
)

// never tells whether a container is not to be started again by its policy; its rules may have it run again all the same.
func (a *Actor) never(c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyNever
	}
	return a.manifest.Spec.RestartPolicy == corev1.RestartPolicyNever
}

// onlyOnce tells whether no instance of a container may run twice.
func (a *Actor) onlyOnce(c *corev1.Container) bool {
	return a.never(c) && a.manifest.Annotations[AnnotationStartGuarantee] != AtLeastOnce
}

// restarts tells whether a container that does not run is to be started (again). Whether it is its turn is another
// question: see atTurn.
func (a *Actor) restarts(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	cur := r.GetCurrent()
	if !exited(cur) || r.GetReplacing() || a.made(r) != nil || !countsStill(r) {
		return true
	}
	if a.runsOnce(c) && cur.GetExitCode() == 0 && !r.GetStoppedAsUnhealthy() {
		// A new sandbox begins again with the first init container.
		return !a.begun(c)
	}
	return a.policySays(c, cur.GetExitCode(), r.GetStoppedAsUnhealthy())
}

// policySays tells whether the policies have a container that ended with a code run again: its own rules come first, the
// first that matches, then its own policy, then the pod's. The exit code of one that was stopped as unhealthy says nothing
// about its program: no rule is asked, and it has failed (kubelet: a failed probe restarts unless the policy is Never).
func (a *Actor) policySays(c *corev1.Container, code int32, unhealthy bool) bool {
	policy := a.manifest.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		if !unhealthy && action(c, code) == corev1.ContainerRestartRuleActionRestart {
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

// reasonUnknownEnds is the stop reason of a container that the runtime lost track of and that its policy ends.
const reasonUnknownEnds = "container is in an unknown state"

// unknownReason is the stop reason of a container of unknown state. As with the kubelet it is started again whatever the
// policy, but for one that must not run twice; its rules say nothing, since no exit code is known.
func (a *Actor) unknownReason(c *corev1.Container) string {
	if (a.runsOnce(c) || a.onlyOnce(c)) && !a.policySays(c, exitStatusUnknown, true) {
		return reasonUnknownEnds
	}
	return reasonUnknown
}

// action is what the first of a container's rules asks for that matches the code with which it ended (KEP-5307); empty if
// none does.
func action(c *corev1.Container, code int32) corev1.ContainerRestartRuleAction {
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

// countsStill tells whether the newest instance of a container is of the round of starts that is under way.
func countsStill(r *journaletv1.ContainerRecord) bool {
	return r.GetCurrent().GetAttempt() >= r.GetRestartedFrom()
}

// mayRestartAll tells whether a rule of a container may have all of them begin again.
func mayRestartAll(c *corev1.Container) bool {
	return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
		return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
	})
}
