//go:build integration

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/node"
)

// withInit gives a pod its init containers.
func withInit(list ...corev1.Container) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.InitContainers = list }
}

func sidecar(name, script string) corev1.Container {
	c := shell(name, script)
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

// host mounts a directory of the host at /h in every container of a pod.
func host(dir string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		source := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "h", VolumeSource: source})
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: "h", MountPath: "/h"})
			}
		}
	}
}

// gate is a script that writes its name and ends when a file "go" exists.
const gate = "echo gate >>/h/order; until [ -e /h/go ]; do sleep 0.1; done"

// shows waits until the row of a pod in `journalet pods` holds words.
func (a *agent) shows(name, words string) {
	a.T.Helper()
	eventually(a.T, node.Soon, "the row of "+name+" with "+words, func() error {
		out, _, _ := a.CLI("pods")
		for line := range strings.Lines(out) {
			if strings.Contains(line, name+"-") && strings.Contains(line, words) {
				return nil
			}
		}
		return fmt.Errorf("the rows are\n%s", out)
	})
}

func TestInitContainersRunInOrderOverAgentRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := started(t, onePod("ordered", "echo main >>/h/order; "+idle, withInit(
		shell("first", "echo first >>/h/order"),
		sidecar("proxy", "echo proxy >>/h/order; "+idle),
		shell("gate", gate),
	), host(dir)))
	atGate := func(p *corev1.Pod) bool { return container(p, "gate").State.Running != nil }
	a.pod("ordered", "runs its gate", atGate)
	a.shows("ordered", "Init:2/3")
	a.shows("ordered", "1/2")
	had := a.fingerprint()
	a.crash()
	p := a.pod("ordered", "runs its gate", atGate)
	if p.Status.Phase != corev1.PodPending || condition(p, corev1.PodInitialized) != corev1.ConditionFalse {
		t.Errorf("while its gate runs it is %s, Initialized %s", p.Status.Phase, condition(p, corev1.PodInitialized))
	}
	a.Kill()
	writeFile(t, filepath.Join(dir, "go"), "")
	a.start()
	p = a.pod("ordered", "ready", ready)
	for id, was := range a.fingerprint() {
		if old := had[id]; old != "" && old != was && node.BareID(container(p, "gate").ContainerID) != id {
			t.Errorf("%s was %s and is %s", id, old, was)
		}
	}
	eventually(t, node.Soon, "the order", func() error {
		if order := readFile(t, dir, "order"); order != "first\nproxy\ngate\nmain\n" {
			return fmt.Errorf("they ran as %q", order)
		}
		return nil
	})
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if c.RestartCount != 0 || !c.Ready {
			t.Errorf("%+v", c)
		}
	}
	a.shows("ordered", "2/2")
}

func TestFailedInitContainerFailsAPodOfRestartPolicyNever(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("failing", idle, restarts(corev1.RestartPolicyNever), withInit(
		sidecar("proxy", idle), shell("bad", "exit 3"), shell("never", "exit 0"),
	)))
	p := a.pod("failing", "failed, its sidecar ended", func(p *corev1.Pod) bool {
		return phase(corev1.PodFailed)(p) && container(p, "proxy").State.Terminated != nil
	})
	if end := container(p, "bad").State.Terminated; end == nil || end.ExitCode != 3 {
		t.Errorf("the failed one: %+v", container(p, "bad"))
	}
	a.shows("failing", "Init:Error")
	for _, c := range a.containers() {
		if name := c.GetMetadata().GetName(); name != "proxy" && name != "bad" {
			t.Errorf("container %s was created", name)
		}
	}
}

func TestFailingInitContainerIsRestartedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := started(t, onePod("trying", idle, withInit(shell("try", "echo >>/h/tries; [ -e /h/go ]")), host(dir)))
	a.pod("trying", "in back-off", waiting("try", "CrashLoopBackOff"))
	a.shows("trying", "Init:CrashLoopBackOff")
	writeFile(t, filepath.Join(dir, "go"), "")
	p := a.pod("trying", "ready", ready)
	tries := strings.Count(readFile(t, dir, "tries"), "\n")
	if c := container(p, "try"); tries < 3 || int(c.RestartCount) != tries-1 || c.LastTerminationState.Terminated == nil {
		t.Errorf("its init container, after %d tries: %+v", tries, c)
	}
	eventually(t, node.Soon, "one dead init container and the main one", func() error {
		if n := len(a.containers()); n != 2 {
			return fmt.Errorf("the pod has %d containers", n)
		}
		return nil
	})
}

func TestSidecarsEndAfterTheMainContainers(t *testing.T) {
	t.Parallel()
	slow := sidecar("first", "trap 'sleep 0.2; exit 0' TERM; touch /h/first; sleep 100000 & wait")
	fast := sidecar("second", "trap 'exit 0' TERM; touch /h/second; sleep 100000 & wait")
	// A signal ends a shell that has not set its trap yet.
	const script = "until [ -e /h/first -a -e /h/second ]; do sleep 0.1; done"
	a := started(t, onePod("job", script, restarts(corev1.RestartPolicyOnFailure), withInit(slow, fast),
		host(t.TempDir())))
	p := a.pod("job", "succeeded", phase(corev1.PodSucceeded))
	main := container(p, "main").State.Terminated
	for _, name := range []string{"first", "second"} {
		end := container(p, name).State.Terminated
		if end == nil || end.ExitCode != 0 || end.FinishedAt.Before(&main.FinishedAt) {
			t.Errorf("sidecar %s: %+v", name, container(p, name))
		}
	}
	eventually(t, node.Soon, "no ready sandbox", func() error {
		for _, s := range a.sandboxes() {
			if s.GetState() == cri.PodSandboxState_SANDBOX_READY {
				return fmt.Errorf("sandbox %s is ready", s.GetId())
			}
		}
		return nil
	})
}

func TestNewSandboxRunsTheInitContainersAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := started(t, onePod("again", "echo main >>/h/order; "+idle, withInit(
		shell("init", "echo init >>/h/order"), sidecar("proxy", "echo proxy >>/h/order; "+idle),
	), host(dir)))
	a.pod("again", "ready", ready)
	stopSandbox(t, a.sandboxes()[0].GetId())
	// The runtime ends the containers first. A container that is started again in the dying sandbox counts, too.
	p := a.pod("again", "ready in its new sandbox", func(p *corev1.Pod) bool {
		return ready(p) && container(p, "init").RestartCount > 0
	})
	if n := container(p, "init").RestartCount; n != 1 {
		t.Errorf("init was restarted %d times", n)
	}
	eventually(t, node.Soon, "the order in the second sandbox", func() error {
		order := readFile(t, dir, "order")
		if _, second, _ := strings.Cut(order, "main\n"); !strings.HasSuffix(second, "init\nproxy\nmain\n") {
			return fmt.Errorf("they ran as %q", order)
		}
		return nil
	})
}

// lateSeconds is a deadline that leaves time to become ready on a busy machine.
const lateSeconds int64 = 30

func TestActiveDeadlineEndsThePod(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("late", idle, withInit(sidecar("proxy", idle)), func(p *corev1.Pod) {
		p.Spec.ActiveDeadlineSeconds = ptr.To(lateSeconds)
	}))
	a.pod("late", "ready", ready)
	a.crash()
	p := a.pod("late", "failed, its containers ended", func(p *corev1.Pod) bool {
		return phase(corev1.PodFailed)(p) && container(p, "main").State.Terminated != nil &&
			container(p, "proxy").State.Terminated != nil
	})
	if p.Status.Reason != "DeadlineExceeded" ||
		p.Status.Message != "Pod was active on the node longer than the specified deadline" {
		t.Errorf("it failed with %q: %q", p.Status.Reason, p.Status.Message)
	}
	ran := container(p, "main").State.Terminated.FinishedAt.Sub(p.Status.StartTime.Time)
	if ran.Seconds() < float64(lateSeconds) {
		t.Errorf("it ended %s after its start, want %d s", ran, lateSeconds)
	}
}
