package oracle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/oracle/pods"
)

// Classes of histories that both sides handle differently; known.go has the reasons.
const (
	neverStarted   = "a container that was never started, "
	unknownAgain   = "a container of unknown state after another, "
	unknownEnds    = "a container of unknown state that is not started again, "
	ownPolicyLost  = "a container with a policy of its own whose sandbox is lost, "
	initLost       = "an init container of an earlier sandbox, "
	startedAgain   = "a container that had started up and is replaced, "
	startingSide   = "a sidecar with another image that has not started up, "
	unhealthyRules = "an unhealthy container with rules that would restart it, "
	initGone       = "an init container that no longer exists, "
	endingForGood  = "a dead sidecar beside a container that is stopped for good, "
)

// classOf returns the class of a history, for keys of differences: "" in most cases. Of several classes, the one listed
// first above counts.
func classOf(p *corev1.Pod, h pods.History) string {
	lost, pasts := map[uint32]bool{}, map[string][]pods.ContainerPast{}
	for _, x := range h.Sandboxes {
		lost[x.Attempt] = !x.Ready
	}
	for _, c := range h.Containers {
		pasts[c.Name] = append(pasts[c.Name], c)
	}
	found := map[string]bool{}
	dead := slices.ContainsFunc(p.Spec.InitContainers, func(spec corev1.Container) bool {
		past := pasts[spec.Name]
		return isSidecar(&spec) && len(past) > 0 && past[0].State != pods.Running
	})
	later := false // a later container exists
	all := slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
	for i, spec := range slices.Backward(all) {
		isInit, past := i < len(p.Spec.InitContainers), pasts[spec.Name]
		if len(past) == 0 {
			found[initGone] = found[initGone] || isInit && later
			continue
		}
		ended := lost[past[0].Sandbox]
		for _, c := range past {
			found[neverStarted] = found[neverStarted] || c.State == pods.Created
			unknown := c.State == pods.Unknown
			found[unknownAgain] = found[unknownAgain] || unknown && len(past) > 1
			found[unknownEnds] = found[unknownEnds] ||
				unknown && (h.Removed || ended || isInit && later || !restartable(p, &spec))
			forGood := (c.Liveness == pods.Failure || c.Startup == pods.Failure) && !restartable(p, &spec)
			found[unhealthyRules] = found[unhealthyRules] || forGood && len(spec.RestartPolicyRules) > 0
			found[endingForGood] = found[endingForGood] || forGood && dead && !isInit
			found[startedAgain] = found[startedAgain] ||
				c.Startup == pods.Success && (ended || c.OtherImage || c.Liveness == pods.Failure)
		}
		found[startingSide] = found[startingSide] || isInit && isSidecar(&spec) && spec.StartupProbe != nil &&
			past[0].OtherImage && past[0].Startup != pods.Success
		found[ownPolicyLost] = found[ownPolicyLost] || ended && spec.RestartPolicy != nil && !isSidecar(&spec)
		found[initLost] = found[initLost] || isInit && ended
		later = true
	}
	for _, class := range []string{
		neverStarted, unknownAgain, unknownEnds, ownPolicyLost, initLost,
		startedAgain, startingSide, unhealthyRules, initGone, endingForGood,
	} {
		if found[class] {
			return class
		}
	}
	return ""
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// restartable reports whether a container that is stopped as unhealthy starts again. Its own policy overrides the
// pod's.
func restartable(p *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return p.Spec.RestartPolicy != corev1.RestartPolicyNever
}
