package simulation

import (
	"bytes"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Invariants of the status that the agent sends to the API server.

// patched judges a status that the agent sends, and returns why the API server refuses it, "" if it does not. If the
// answer to a patch was lost, the agent knows of that no sooner than from its watch: then the API server only refuses
// the status. What an inspection shows while a patch is under way comes too late for it.
func (b *apiBooks) patched(s *sim, was, next *corev1.Pod, patch []byte, sent patchSent) string {
	j, uid := s.judge, onNode(was)
	if bytes.Contains(patch, []byte(secret)) {
		j.broken(noSecretsSent, uid, "the patch of its status does: %s", patch)
	}
	if hasEnded(was) && next.Status.Phase != was.Status.Phase {
		j.broken(terminalStays, uid, "it was %s, and becomes %s", was.Status.Phase, next.Status.Phase)
	}
	if id := j.runningOf(was); id != "" && sent.runs && hasEnded(next) && !hasEnded(was) {
		j.broken(deletedLast, uid, "it becomes %s, and %s runs", next.Status.Phase, id)
	}
	b.runningReported(s, uid, was, next)
	if h := j.history(uid); h.rejectedAs != 0 && h.rejectedAs == h.incarnation && len(next.Status.ContainerStatuses) == 0 {
		return "" // it was rejected, after the journal was lost: then it has no containers, as with the kubelet
	}
	for _, lists := range [][2][]corev1.ContainerStatus{
		{was.Status.InitContainerStatuses, next.Status.InitContainerStatuses},
		{was.Status.ContainerStatuses, next.Status.ContainerStatuses},
	} {
		if name := revived(was, lists[0], lists[1]); name != "" {
			if sent.shown >= b.unanswered[was.UID] {
				j.broken(terminalStays, uid, "container %s had ended, and has not any more", name)
			}
			return "container " + name + " may not be restarted"
		}
	}
	return ""
}

// runningReported: a container that the API server knows as running, and that runs, is not said to wait: it would be
// unready, and get no more traffic, until the agent has seen it.
func (b *apiBooks) runningReported(s *sim, uid string, was, next *corev1.Pod) {
	waits := map[string]bool{}
	for i := range next.Status.ContainerStatuses {
		c := &next.Status.ContainerStatuses[i]
		waits[c.Name] = c.State.Waiting != nil
	}
	for i := range was.Status.ContainerStatuses {
		c := &was.Status.ContainerStatuses[i]
		_, id, _ := strings.Cut(c.ContainerID, "://")
		x := s.judge.book.byID[id]
		if c.State.Running != nil && waits[c.Name] && x != nil && x.state == running && !x.vanished {
			s.judge.broken(runsReported, uid, "%s of container %s does", id, c.Name)
		}
	}
}

// revived returns a container that had ended for good and has not any more, "" for none.
func revived(p *corev1.Pod, was, next []corev1.ContainerStatus) string {
	for _, c := range was {
		t := c.State.Terminated
		i := slices.IndexFunc(next, func(n corev1.ContainerStatus) bool { return n.Name == c.Name })
		if t == nil || i >= 0 && next[i].State.Terminated != nil {
			continue
		}
		if hasEnded(p) || !mayRevive(p, findSpec(p, c.Name), t.ExitCode) {
			return c.Name
		}
	}
	return ""
}

// mayRevive reports whether a container of a pod that runs may run again after an end with a code. The rule is written
// here a second time, independent of runtime/cluster/podstatus.
func mayRevive(p *corev1.Pod, spec *corev1.Container, code int32) bool {
	if spec == nil {
		return true
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			for _, r := range list[i].RestartPolicyRules {
				if r.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
	}
	policy := string(p.Spec.RestartPolicy)
	if policy == "Always" || policy == "OnFailure" && code != 0 {
		return true
	}
	if spec.RestartPolicy != nil {
		if ruleFor(spec, code) != "" {
			return true
		}
		policy = string(*spec.RestartPolicy)
	}
	return policy == "Always" || policy == "OnFailure" && code != 0
}
