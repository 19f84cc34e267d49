package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// restarts tells whether a container that does not run is to be started (again). Whether it is its turn is another
// question: see atTurn.
func (a *Actor) restarts(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	cur := r.GetCurrent()
	if !exited(cur) || r.GetReplacing() || a.made(r) != nil {
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
		if !unhealthy && slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool { return matches(r, code) }) {
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

// matches tells whether a rule has a container restarted that ended with a code (KEP-5307). The only action that is
// carried out is Restart: manifests with another are refused.
func matches(r corev1.ContainerRestartRule, code int32) bool {
	if r.ExitCodes == nil || r.Action != corev1.ContainerRestartRuleActionRestart {
		return false
	}
	in := slices.Contains(r.ExitCodes.Values, code)
	switch r.ExitCodes.Operator {
	case corev1.ContainerRestartRuleOnExitCodesOpIn:
		return in
	case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !in
	}
	return false
}
