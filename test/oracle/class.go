package oracle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/oracle/pods"
)

// Classes of histories that both sides handle differently; known.go has the reasons.
const (
	neverStarted   = "a container that was never started: "
	unknownAgain   = "a container of unknown state after another: "
	unknownEnds    = "a container of unknown state that is not started again: "
	ownPolicyLost  = "a container with a policy of its own whose sandbox is lost: "
	initLost       = "an init container of an earlier sandbox: "
	startedAgain   = "a container that had started up and is replaced: "
	startingSide   = "a sidecar with another image that has not started up: "
	unhealthyRules = "an unhealthy container with rules that would restart it: "
	initGone       = "an init container that no longer exists: "
	unknownHook    = "a container of unknown state with a preStop hook: "
	endingForGood  = "a dead sidecar beside a container that is stopped for good: "
)

// classes holds the names of the containers of each class.
type classes map[string]map[string]bool

// key names a difference of a container, or with "" of the pod. It begins with the container's class, or with "beside"
// and a class of another container, and is the first such key that is known: histories combine classes in any way.
func (c classes) key(container, what string) string {
	var keys []string
	for _, class := range allClasses {
		if c[class][container] {
			keys = append(keys, class+what)
		}
	}
	for _, class := range allClasses {
		if n := len(c[class]); n > 1 || n == 1 && !c[class][container] {
			keys = append(keys, "beside "+class+besideOf(what))
		}
	}
	for _, key := range keys {
		if _, is := known[historyKeys+key]; is {
			return key
		}
	}
	return append(keys, what)[0]
}

// besideOf returns the name of a difference beside a container of a class. What the runtime has to do there is one
// difference: which of these calls follow depends on the rest of the pod.
func besideOf(what string) string {
	if what == itsCalls || what == itsHooks || what == sandboxesRun {
		return runs
	}
	return what
}

// classesOf returns the containers of each class.
func classesOf(p *corev1.Pod, h pods.History) classes {
	lost, pasts := map[uint32]bool{}, map[string][]pods.ContainerPast{}
	for _, x := range h.Sandboxes {
		lost[x.Attempt] = !x.Ready
	}
	for _, c := range h.Containers {
		pasts[c.Name] = append(pasts[c.Name], c)
	}
	found := classes{}
	in := func(class, container string, is bool) {
		if is && found[class] == nil {
			found[class] = map[string]bool{}
		}
		if is {
			found[class][container] = true
		}
	}
	dead := slices.ContainsFunc(p.Spec.InitContainers, func(spec corev1.Container) bool {
		past := pasts[spec.Name]
		return isSidecar(&spec) && len(past) > 0 && past[0].State != pods.Running
	})
	later := false // a later container exists
	all := slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
	for i, spec := range slices.Backward(all) {
		isInit, past := i < len(p.Spec.InitContainers), pasts[spec.Name]
		if len(past) == 0 {
			in(initGone, spec.Name, isInit && later)
			continue
		}
		ended := lost[past[0].Sandbox]
		for _, c := range past {
			in(neverStarted, spec.Name, c.State == pods.Created)
			unknown := c.State == pods.Unknown
			in(unknownHook, spec.Name, unknown && spec.Lifecycle != nil && spec.Lifecycle.PreStop != nil)
			in(unknownAgain, spec.Name, unknown && len(past) > 1)
			in(unknownEnds, spec.Name, unknown && (h.Removed || ended || isInit && later || !restartable(p, &spec)))
			forGood := (c.Liveness == pods.Failure || c.Startup == pods.Failure) && !restartable(p, &spec)
			in(unhealthyRules, spec.Name, forGood && len(spec.RestartPolicyRules) > 0)
			in(endingForGood, spec.Name, forGood && dead && !isInit)
			in(startedAgain, spec.Name, c.Startup == pods.Success && (ended || c.OtherImage || c.Liveness == pods.Failure))
		}
		in(startingSide, spec.Name, isInit && isSidecar(&spec) && spec.StartupProbe != nil &&
			past[0].OtherImage && past[0].Startup != pods.Success)
		in(ownPolicyLost, spec.Name, ended && spec.RestartPolicy != nil && !isSidecar(&spec))
		in(initLost, spec.Name, isInit && ended)
		later = true
	}
	return found
}

// allClasses are the classes; a container of several has the first one.
var allClasses = []string{
	neverStarted, unknownAgain, unknownEnds, ownPolicyLost, initLost, startedAgain, startingSide, unhealthyRules, initGone,
	endingForGood, unknownHook,
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

// startsAgain reports whether an init container may start again although later containers exist: a sidecar that had
// started, or an init container that is gone.
func startsAgain(p *corev1.Pod, h pods.History) bool {
	return len(classesOf(p, h)[initGone]) > 0 || slices.ContainsFunc(h.Containers, func(past pods.ContainerPast) bool {
		spec := specOf(p, past.Name)
		return spec != nil && isSidecar(spec)
	})
}
