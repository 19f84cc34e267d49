//go:build integration

package integration

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestHigherPriorityPodPreemptsALowerOne(t *testing.T) {
	t.Parallel()
	priority := func(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }
	a := started(t, manifests(newPod("low", idle), newPod("high", idle, priority(10))), "--max-pods", "2")
	a.pods("two pods ready", allReady(2))
	a.put(newPod("critical", idle, priority(20)))
	a.pod("critical", "ready", ready)
	check := func() {
		t.Helper()
		pods := a.pods("low preempted by critical", func(pods map[string]*corev1.Pod) bool {
			return ready(pods["high"]) && ready(pods["critical"]) && phase(corev1.PodFailed)(pods["low"]) &&
				container(pods["low"], "main").State.Terminated != nil
		})
		preempted(t, pods["low"])
	}
	check()
	admitted := a.podNow("critical").Status.StartTime
	if ended := container(a.podNow("low"), "main").State.Terminated.FinishedAt; admitted.Time.Before(ended.Time) {
		t.Errorf("critical was admitted at %s, before the end of low at %s", admitted, ended)
	}
	a.crash()
	check()
	a.Verified()
}

// preempted checks that a pod reports its preemption.
func preempted(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if p.Status.Reason != "Preempting" || condition(p, corev1.DisruptionTarget) != corev1.ConditionTrue {
		t.Errorf("%s is %s, conditions %v", p.Name, p.Status.Reason, p.Status.Conditions)
	}
}

func TestCriticalPodsResizePreemptsAnotherPod(t *testing.T) {
	t.Parallel()
	percent := func(n int) func(*corev1.Pod) { // of the machine's CPUs
		size := fmt.Sprintf("%dm/16Mi", runtime.NumCPU()*10*n)
		return sized(size, size)
	}
	critical := func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }
	a := started(t, manifests(newPod("low", idle, percent(60)), newPod("critical", idle, percent(20), critical)))
	was := container(a.pods("two pods ready", allReady(2))["critical"], "main")
	a.put(newPod("critical", idle, percent(80), critical))
	pods := a.pods("low preempted by critical", func(pods map[string]*corev1.Pod) bool {
		return resized(pods["critical"]) && phase(corev1.PodFailed)(pods["low"])
	})
	preempted(t, pods["low"])
	if now := container(pods["critical"], "main"); now.ContainerID != was.ContainerID || now.RestartCount != 0 {
		t.Errorf("critical was started again: %s, %d restarts", now.ContainerID, now.RestartCount)
	}
	if cgroup := inCgroup(t, was.ContainerID); !strings.Contains(cgroup, fmt.Sprint(runtime.NumCPU()*800*100)) {
		t.Errorf("its cgroup has %s", cgroup)
	}
	a.Verified()
}
