//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/node"
)

// before gives a pod init containers.
func before(list ...corev1.Container) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.InitContainers = list }
}

func sidecar(name, script string) corev1.Container {
	c := shell(name, script)
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

// host gives every container of a pod a folder of the host at /h.
func host(dir string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}})
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: "h", MountPath: "/h"})
			}
		}
	}
}

func initContainer(p *corev1.Pod, name string) corev1.ContainerStatus {
	for _, c := range p.Status.InitContainerStatuses {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

// gate is a script that writes its name down and ends when there is a file "go".
const gate = "echo gate >>/h/order; until [ -e /h/go ]; do sleep 0.1; done"

// shows waits until the row of a pod in `journalet pods` holds some words.
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

func TestInitContainersRunInOrderOverARestartOfTheAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := started(t, map[string]string{"ordered.yaml": manifest(newPod("ordered", "echo main >>/h/order; "+idle, before(
		shell("first", "echo first >>/h/order"),
		sidecar("proxy", "echo proxy >>/h/order; "+idle),
		shell("gate", gate),
	), host(dir)))})
	a.pod("ordered", "waits at its gate", func(p *corev1.Pod) bool { return initContainer(p, "gate").State.Running != nil })
	a.shows("ordered", "Init:2/3")
	a.shows("ordered", "1/2")
	had := a.fingerprint()
	a.Kill()
	a.Start()
	p := a.pod("ordered", "waits at its gate", func(p *corev1.Pod) bool { return initContainer(p, "gate").State.Running != nil })
	if p.Status.Phase != corev1.PodPending || condition(p, corev1.PodInitialized) != corev1.ConditionFalse {
		t.Errorf("behind its gate it is %s, Initialized %s", p.Status.Phase, condition(p, corev1.PodInitialized))
	}
	a.Kill()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.Start()
	p = a.pod("ordered", "ready", ready)
	for id, was := range a.fingerprint() {
		if old := had[id]; old != "" && old != was && !strings.HasPrefix(initContainer(p, "gate").ContainerID, "containerd://"+id) {
			t.Errorf("%s was %s and is %s", id, old, was)
		}
	}
	eventually(t, node.Soon, "the order", func() error {
		order, err := os.ReadFile(filepath.Join(dir, "order"))
		if err == nil && string(order) != "first\nproxy\ngate\nmain\n" {
			return fmt.Errorf("they ran as %q", order)
		}
		return err
	})
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if c.RestartCount != 0 || !c.Ready {
			t.Errorf("%+v", c)
		}
	}
	a.shows("ordered", "2/2")
}

func TestAFailedInitContainerFailsAPodThatNeverRestarts(t *testing.T) {
	t.Parallel()
	a := started(t, map[string]string{"failing.yaml": manifest(newPod("failing", idle, restarts(corev1.RestartPolicyNever), before(
		sidecar("proxy", idle), shell("bad", "exit 3"), shell("never", "exit 0"),
	)))})
	p := a.pod("failing", "failed, its sidecar ended", func(p *corev1.Pod) bool {
		return phase(corev1.PodFailed)(p) && initContainer(p, "proxy").State.Terminated != nil
	})
	if end := initContainer(p, "bad").State.Terminated; end == nil || end.ExitCode != 3 {
		t.Errorf("the failed one: %+v", initContainer(p, "bad"))
	}
	a.shows("failing", "Init:Error")
	for _, c := range a.containers() {
		if name := c.GetMetadata().GetName(); name != "proxy" && name != "bad" {
			t.Errorf("container %s was made", name)
		}
	}
}

func TestAFailingInitContainerIsTriedAgainUntilItSucceeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := started(t, map[string]string{"trying.yaml": manifest(newPod("trying", idle, before(
		shell("try", "echo >>/h/tries; [ $(wc -l </h/tries) -ge 3 ]"),
	), host(dir)))})
	a.pod("trying", "in back-off", func(p *corev1.Pod) bool {
		w := initContainer(p, "try").State.Waiting
		return w != nil && w.Reason == "CrashLoopBackOff"
	})
	a.shows("trying", "Init:CrashLoopBackOff")
	p := a.pod("trying", "ready", ready)
	if c := initContainer(p, "try"); c.RestartCount != 2 || c.LastTerminationState.Terminated == nil {
		t.Errorf("the one that was tried: %+v", c)
	}
	eventually(t, node.Soon, "one dead init container beside the main one", func() error {
		if n := len(a.containers()); n != 2 {
			return fmt.Errorf("%d containers are there", n)
		}
		return nil
	})
}

func TestASidecarKeepsNoFinishedPodAlive(t *testing.T) {
	t.Parallel()
	a := started(t, map[string]string{"job.yaml": manifest(newPod("job", "sleep 1", restarts(corev1.RestartPolicyOnFailure), before(
		sidecar("first", "trap 'sleep 0.2; exit 0' TERM; sleep 100000 & wait"), sidecar("second", idle),
	)))})
	p := a.pod("job", "succeeded", phase(corev1.PodSucceeded))
	main := container(p, "main").State.Terminated
	for _, name := range []string{"first", "second"} {
		end := initContainer(p, name).State.Terminated
		if end == nil || end.ExitCode != 0 || end.FinishedAt.Before(&main.FinishedAt) {
			t.Errorf("sidecar %s: %+v", name, initContainer(p, name))
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

func TestANewSandboxRunsTheInitContainersAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := started(t, map[string]string{"again.yaml": manifest(newPod("again", "echo main >>/h/order; "+idle, before(
		shell("init", "echo init >>/h/order"), sidecar("proxy", "echo proxy >>/h/order; "+idle),
	), host(dir)))})
	a.pod("again", "ready", ready)
	ctx, cancel := node.Bounded()
	defer cancel()
	if _, err := setup.Runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: a.sandboxes()[0].GetId()}); err != nil {
		// The agent stops the dying sandbox, too, and CNI can be told to take the same network away twice at once.
		t.Log("the stop of the sandbox:", err)
	}
	// The runtime ends the containers first: what is started again in the dying sandbox counts, too.
	p := a.pod("again", "ready in its new sandbox", func(p *corev1.Pod) bool { return ready(p) && initContainer(p, "init").RestartCount > 0 })
	if n := initContainer(p, "init").RestartCount; n != 1 {
		t.Errorf("init was restarted %d times", n)
	}
	eventually(t, node.Soon, "the order of the second round", func() error {
		order, err := os.ReadFile(filepath.Join(dir, "order"))
		if _, second, _ := strings.Cut(string(order), "main\n"); err == nil && !strings.HasSuffix(second, "init\nproxy\nmain\n") {
			return fmt.Errorf("they ran as %q", order)
		}
		return err
	})
}

// lateSeconds is a deadline that leaves time to get ready.
const lateSeconds int64 = 12

func TestAPodIsEndedAtItsDeadline(t *testing.T) {
	t.Parallel()
	a := started(t, map[string]string{"late.yaml": manifest(newPod("late", idle, before(sidecar("proxy", idle)), func(p *corev1.Pod) {
		p.Spec.ActiveDeadlineSeconds = ptr.To(lateSeconds)
	}))})
	a.pod("late", "ready", ready)
	a.Kill()
	a.Start()
	p := a.pod("late", "failed, its containers ended", func(p *corev1.Pod) bool {
		return phase(corev1.PodFailed)(p) && container(p, "main").State.Terminated != nil && initContainer(p, "proxy").State.Terminated != nil
	})
	if p.Status.Reason != "DeadlineExceeded" || p.Status.Message != "Pod was active on the node longer than the specified deadline" {
		t.Errorf("it ended for %q: %q", p.Status.Reason, p.Status.Message)
	}
	if ran := container(p, "main").State.Terminated.FinishedAt.Sub(p.Status.StartTime.Time); ran.Seconds() < float64(lateSeconds) {
		t.Errorf("it was ended %s after its start, want %d s", ran, lateSeconds)
	}
}
