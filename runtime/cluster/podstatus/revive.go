package podstatus

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
)

// keepEnded leaves containers that have ended for good at the API server as they are there: it refuses a status that
// shows such a container as not ended. That happens when the journal was lost, or when an operator restarts such a
// container. No container of an ended pod revives, nor does an ephemeral container of any pod.
func keepEnded(pod *corev1.Pod, is, to []corev1.ContainerStatus, mayRun bool) {
	if mayRun && restartsAll(pod) {
		return
	}
	for i := range to {
		was := slices.IndexFunc(is, func(s corev1.ContainerStatus) bool { return s.Name == to[i].Name })
		if was < 0 || is[was].State.Terminated == nil || to[i].State.Terminated != nil {
			continue
		}
		if !mayRun || !mayRevive(pod, to[i].Name, is[was].State.Terminated.ExitCode) {
			to[i] = is[was]
		}
	}
}

// restartsAll reports whether a rule of a container restarts all of them.
func restartsAll(pod *corev1.Pod) bool {
	for c := range containers.WithoutEphemeral(pod) {
		if slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		}) {
			return true
		}
	}
	return false
}

// mayRevive reports whether a container that ended with a code may run again: by the pod's policy, which the API server
// checks first, or by its own rules and policy.
func mayRevive(pod *corev1.Pod, name string, code int32) bool {
	if policy := pod.Spec.RestartPolicy; policy == corev1.RestartPolicyAlways ||
		code != 0 && policy == corev1.RestartPolicyOnFailure {
		return true
	}
	for c := range containers.WithoutEphemeral(pod) {
		if c.Name == name {
			return policyRevives(pod.Spec.RestartPolicy, c, code)
		}
	}
	return true
}

func policyRevives(policy corev1.RestartPolicy, c *corev1.Container, code int32) bool {
	if c.RestartPolicy != nil {
		for _, r := range c.RestartPolicyRules {
			if r.ExitCodes == nil {
				continue
			}
			in := slices.Contains(r.ExitCodes.Values, code)
			if in != (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
				continue
			}
			if r.Action == corev1.ContainerRestartRuleActionRestart {
				return true
			}
			break
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return true
}
