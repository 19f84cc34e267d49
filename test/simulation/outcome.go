package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// How a pod may have ended: by its manifest, by how its containers ended in the world, and by the judge's own books of
// what the node decided.

// mayHaveEnded reports whether a pod may be in a terminal phase.
func (s *sim) mayHaveEnded(uid string, m *corev1.Pod, phase corev1.PodPhase) bool {
	h := s.judge.history(uid)
	if phase == corev1.PodFailed && (h.incarnation != 0 && (h.rejectedAs == h.incarnation ||
		h.preemptedAs == h.incarnation || h.evictedAs == h.incarnation || h.refusedAs == h.incarnation) ||
		s.judge.deadlineEnded(h, m)) {
		return true
	}
	for i := range m.Spec.InitContainers {
		c := &m.Spec.InitContainers[i]
		if over, failed := s.judge.over(h, m, c); phase == corev1.PodFailed && over && failed && !isSidecar(c) {
			return true
		}
	}
	over, failed := s.judge.allOver(h, m)
	return over && failed == (phase == corev1.PodFailed)
}

// deadlineEnded reports whether a pod ended when its deadline had passed. If the clock was set meanwhile, the deadline
// may have passed by the clock.
func (j *judge) deadlineEnded(h *podHistory, m *corev1.Pod) bool {
	if m.Spec.ActiveDeadlineSeconds == nil || h.endsAt < 0 {
		return false
	}
	after := time.Duration(*m.Spec.ActiveDeadlineSeconds) * time.Second
	return h.endsAt-h.admittedAt >= after-time.Second || slices.ContainsFunc(j.clockSets, func(at time.Duration) bool {
		return at >= h.admittedAt && at <= h.endsAt
	})
}

// allOver reports whether no main container of a pod may be started again, and whether one of them has failed.
func (j *judge) allOver(h *podHistory, m *corev1.Pod) (over, failed bool) {
	for i := range m.Spec.Containers {
		ended, badly := j.over(h, m, &m.Spec.Containers[i])
		if !ended {
			return false, false
		}
		failed = failed || badly
	}
	return true, failed
}

// over reports whether a container has ended and is not to be started again, and whether it has failed. How an instance
// ended that vanished is unknown unless a record shows it: it has failed, as it has if its start was lost.
func (j *judge) over(h *podHistory, m *corev1.Pod, spec *corev1.Container) (over, failed bool) {
	c := h.newestOf(spec.Name)
	if c == nil || c.alive() || c.state == created && !h.lostStarts[c.id] {
		return false, false
	}
	code := c.code
	if h.unknownEnd(c) || h.lostStarts[c.id] {
		code = unknownExit
	}
	policy := m.Spec.RestartPolicy
	if spec.RestartPolicy != nil {
		_, stopped := h.endRequested[c.id]
		switch action := ruleFor(spec, code); {
		case stopped || h.endedBefore[c.id] || h.lostStarts[c.id] || action == "":
		case action != corev1.ContainerRestartRuleActionRestartAllContainers,
			!j.deadSandboxes[c.sandbox] && j.sim.world.sandbox(c.sandbox) != nil: // else its pod has a new one
			return false, false
		}
		policy = corev1.RestartPolicy(*spec.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return true, code != 0
	case corev1.RestartPolicyOnFailure:
		return code == 0, false
	}
	return false, false
}

// unknownExit is the exit code of a container if nobody knows how it ended (kubelet: the exit code of SIGKILL).
const unknownExit = 137

// newestOf returns the newest instance of a container, nil for none.
func (h *podHistory) newestOf(name string) *container {
	for _, c := range slices.Backward(h.all) {
		if c.name == name {
			return c
		}
	}
	return nil
}
