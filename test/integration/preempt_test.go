//go:build integration

package integration

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/node"
)

func TestAPodOfHigherPriorityTakesThePlaceOfAnother(t *testing.T) {
	t.Parallel()
	priority := func(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }
	a := started(t, map[string]string{
		"low.yaml":  manifest(newPod("low", idle)),
		"high.yaml": manifest(newPod("high", idle, priority(10))),
	}, "--max-pods", "2")
	a.pods("two pods ready", allReady(2))
	a.Put("critical.yaml", manifest(newPod("critical", idle, priority(20))))
	a.pod("critical", "ready", ready)
	check := func() {
		t.Helper()
		pods := a.pods("low ended for critical", func(pods map[string]*corev1.Pod) bool {
			return ready(pods["high"]) && ready(pods["critical"]) && phase(corev1.PodFailed)(pods["low"]) && container(pods["low"], "main").State.Terminated != nil
		})
		low := pods["low"]
		if low.Status.Reason != "Preempting" || node.Condition(low, corev1.DisruptionTarget) != corev1.ConditionTrue {
			t.Errorf("low is %s, conditions %v", low.Status.Reason, low.Status.Conditions)
		}
	}
	check()
	admitted := a.podNow("critical").Status.StartTime
	if ended := container(a.podNow("low"), "main").State.Terminated.FinishedAt; admitted.Time.Before(ended.Time) {
		t.Errorf("critical was admitted at %s, before the end of low at %s", admitted, ended)
	}
	a.Kill()
	a.start()
	check()
	a.Verified()
}

func TestACriticalPodsResizeEndsAnotherPod(t *testing.T) {
	t.Parallel()
	share := func(of int) string { return fmt.Sprintf("%dm/16Mi", runtime.NumCPU()*10*of) } // in hundredths of the machine's CPUs
	critical := func(of int) string {
		return manifest(newPod("critical", idle, sized(share(of), share(of)), func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }))
	}
	a := started(t, map[string]string{
		"low.yaml": manifest(newPod("low", idle, sized(share(60), share(60)))), "critical.yaml": critical(20),
	})
	was := container(a.pods("two pods ready", allReady(2))["critical"], "main")
	a.Put("critical.yaml", critical(80))
	pods := a.pods("low ended for critical", func(pods map[string]*corev1.Pod) bool {
		return resized(pods["critical"]) && phase(corev1.PodFailed)(pods["low"])
	})
	if low := pods["low"]; low.Status.Reason != "Preempting" || node.Condition(low, corev1.DisruptionTarget) != corev1.ConditionTrue {
		t.Errorf("low is %s, conditions %v", low.Status.Reason, low.Status.Conditions)
	}
	if now := container(pods["critical"], "main"); now.ContainerID != was.ContainerID || now.RestartCount != 0 {
		t.Errorf("critical was started again: %s, %d restarts", now.ContainerID, now.RestartCount)
	}
	if cgroup := inCgroup(t, was.ContainerID); !strings.Contains(cgroup, fmt.Sprint(runtime.NumCPU()*800*100)) {
		t.Errorf("its cgroup says %s", cgroup)
	}
	a.Verified()
}
