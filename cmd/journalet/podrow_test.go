package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/history/describe"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(time.Minute)}}
}

func terminated(code, signal int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Signal: signal, Reason: reason, FinishedAt: ago(5 * time.Second),
	}}
}

// podWith returns a pod whose containers are in the given states; the running ones are ready.
func podWith(phase corev1.PodPhase, states ...corev1.ContainerState) *corev1.Pod {
	p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
	for i, s := range states {
		name := string(rune('a' + i))
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Image: "busybox:1.36"})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: name, State: s, Ready: s.Running != nil})
	}
	return p
}

func withInit(p *corev1.Pod, sidecar bool, states ...corev1.ContainerState) *corev1.Pod {
	for i, s := range states {
		c := corev1.Container{Name: "init-" + string(rune('a'+i))}
		if sidecar {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, State: s, Ready: s.Running != nil, Started: ptr.To(s.Running != nil), RestartCount: 2,
		})
	}
	return p
}

func TestStatusColumnEqualsKubectls(t *testing.T) {
	removed := func(p *corev1.Pod) *corev1.Pod {
		p.DeletionTimestamp = ptr.To(ago(time.Second))
		return p
	}
	because := func(p *corev1.Pod, reason string) *corev1.Pod {
		p.Status.Reason = reason
		return p
	}
	isReady := func(p *corev1.Pod) *corev1.Pod {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return p
	}
	initialized := func(p *corev1.Pod) *corev1.Pod {
		p.Status.Conditions = append(p.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue})
		return p
	}
	initializing := func() *corev1.Pod { return podWith(corev1.PodPending, waiting("PodInitializing")) }
	for _, c := range []struct {
		name   string
		pod    *corev1.Pod
		status string
		ready  int
	}{
		{"all running", podWith(corev1.PodRunning, running(), running()), "Running", 2},
		{"being created", podWith(corev1.PodPending, waiting("ContainerCreating")), "ContainerCreating", 0},
		{"crashing", podWith(corev1.PodRunning, waiting("CrashLoopBackOff")), "CrashLoopBackOff", 0},
		{"one of two crashing", podWith(corev1.PodRunning, running(), waiting("CrashLoopBackOff")), "CrashLoopBackOff", 1},
		{"no image", podWith(corev1.PodPending, waiting("ImagePullBackOff")), "ImagePullBackOff", 0},
		{"the first container's reason wins", podWith(corev1.PodPending, waiting("ErrImagePull"),
			waiting("CrashLoopBackOff")), "ErrImagePull", 0},
		{"done", podWith(corev1.PodSucceeded, terminated(0, 0, "Completed")), "Completed", 0},
		{"failed", podWith(corev1.PodFailed, terminated(1, 0, "Error")), "Error", 0},
		{"failed without a reason", podWith(corev1.PodFailed, terminated(3, 0, "")), "ExitCode:3", 0},
		{"killed without a reason", podWith(corev1.PodFailed, terminated(137, 9, "")), "Signal:9", 0},
		{"one done, one runs", podWith(corev1.PodRunning, terminated(0, 0, "Completed"), running()), "NotReady", 1},
		{"one done, one runs, ready all the same",
			isReady(podWith(corev1.PodRunning, terminated(0, 0, "Completed"), running())), "Running", 1},
		{"rejected", because(podWith(corev1.PodFailed), "OutOfcpu"), "OutOfcpu", 0},
		{"terminating", removed(podWith(corev1.PodRunning, running())), "Terminating", 1},
		{"terminated", removed(podWith(corev1.PodSucceeded, terminated(0, 0, "Completed"))), "Completed", 0},
		{"node lost", removed(because(podWith(corev1.PodRunning, running()), "NodeLost")), "Unknown", 1},
		{"first init container runs", withInit(initializing(), false, running(), waiting("PodInitializing")), "Init:0/2", 0},
		{"second init container waits", withInit(initializing(), false, terminated(0, 0, "Completed"),
			waiting("PodInitializing")), "Init:1/2", 0},
		{"init container crashes", withInit(initializing(), false, waiting("CrashLoopBackOff")), "Init:CrashLoopBackOff", 0},
		{"init container failed", withInit(podWith(corev1.PodFailed, waiting("PodInitializing")), false,
			terminated(1, 0, "Error")), "Init:Error", 0},
		{"init container failed without a reason",
			withInit(podWith(corev1.PodFailed, waiting("")), false, terminated(4, 0, "")), "Init:ExitCode:4", 0},
		{"init containers done", withInit(podWith(corev1.PodRunning, running()), false, terminated(0, 0, "Completed")),
			"Running", 1},
		{"sidecar beside", withInit(podWith(corev1.PodRunning, running()), true, running()), "Running", 2},
		{"first init container of a pod with its sandbox under way",
			withInit(initializing(), false, waiting("PodInitializing"), waiting("PodInitializing")), "Init:0/2", 0},
		{"init containers done, main one to come", withInit(initializing(), false, terminated(0, 0, "Completed")),
			"PodInitializing", 0},
		{"sidecar crashes before the pod is initialized", withInit(initializing(), true, waiting("CrashLoopBackOff")),
			"Init:CrashLoopBackOff", 0},
		{"sidecar crashes beside a main one that runs",
			initialized(withInit(podWith(corev1.PodRunning, running()), true, waiting("CrashLoopBackOff"))),
			"Init:CrashLoopBackOff", 1},
		{"sidecar ended with the pod", initialized(
			withInit(podWith(corev1.PodSucceeded, terminated(0, 0, "Completed")), true, terminated(0, 0, "Completed"))),
			"Completed", 0},
		{"deadline passed", because(podWith(corev1.PodFailed, running()), "DeadlineExceeded"), "DeadlineExceeded", 1},
		{"quarantined",
			because(podWith(corev1.PodRunning, running(), waiting("CrashLoopBackOff")), describe.ReasonQuarantined),
			"Quarantined", 1},
	} {
		if s := summarize(c.pod); s.status != c.status || s.ready != c.ready {
			t.Errorf("%s: %q with %d ready, want %q with %d", c.name, s.status, s.ready, c.status, c.ready)
		}
	}
}

func TestRestartsShowTheAgeOfTheLastOne(t *testing.T) {
	p := podWith(corev1.PodRunning, running(), running())
	if s := summarize(p); s.restartsText(now) != "0" {
		t.Errorf("none: %q", s.restartsText(now))
	}
	p.Status.ContainerStatuses[0].RestartCount = 2
	p.Status.ContainerStatuses[1].RestartCount = 1
	if s := summarize(p); s.restartsText(now) != "3" {
		t.Errorf("without a time: %q", s.restartsText(now))
	}
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		FinishedAt: ago(time.Hour)}
	p.Status.ContainerStatuses[1].LastTerminationState = terminated(1, 0, "Error")
	if s := summarize(p); s.restartsText(now) != "3 (5s ago)" {
		t.Errorf("the last one 5 s ago: %q", s.restartsText(now))
	}
	// Restarts of a sidecar count, restarts of a completed init container do not.
	if s := summarize(withInit(podWith(corev1.PodRunning, running()), false,
		terminated(0, 0, "Completed"))); s.restarts != 0 {
		t.Errorf("init container: %d", s.restarts)
	}
	if s := summarize(withInit(podWith(corev1.PodRunning, running()), true, running())); s.restarts != 2 {
		t.Errorf("sidecar: %d", s.restarts)
	}
}
