//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
)

func execHandler(script string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}
}

// hooks gives the first container of a pod hooks, and the pod some seconds to end.
func hooks(grace int64, l corev1.Lifecycle) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds, p.Spec.Containers[0].Lifecycle = &grace, &l
	}
}

// ended waits until a container of a pod is seen to have ended, after a record.
func ended(a *agent, after uint64, p *corev1.Pod, name string) *journaletv1.ContainerObservation {
	a.T.Helper()
	var end *journaletv1.ContainerObservation
	a.journal.wait(a.T, after, settle, "the end of "+p.Name+" "+name, func(f bus.Flat) bool {
		o := event(a.T, f).GetPodObserved()
		for _, c := range o.GetContainers() {
			if o.GetUid() == string(p.UID) && c.GetName() == name && c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED {
				end = c
			}
		}
		return end != nil
	})
	return end
}

// removed is when the agent decided to end a pod, after a record.
func removed(a *agent, after uint64, p *corev1.Pod) time.Time {
	a.T.Helper()
	return moment(a.T, a.journal.wait(a.T, after, settle, "the removal of "+p.Name, func(f bus.Flat) bool {
		u := event(a.T, f).GetPodUpdated()
		return u.GetPod().GetUid() == string(p.UID) && u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_REMOVE
	}))
}

// execReturned is an error while runc still sets up a process in a container. If whoever asked for it goes away just then,
// containerd tells the container's end up to 30 s late, however it is stopped (docs/SCOPE.md, "Know before you rely on it").
func execReturned(containerID string) error {
	id := containerID[strings.LastIndex(containerID, "/")+1:]
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, file := range commands {
		// A process may end while one looks.
		line, err := os.ReadFile(file)
		args := strings.Split(string(line), "\x00")
		if err == nil && slices.Contains(args, "exec") && slices.Contains(args, id) {
			return fmt.Errorf("runc still starts a process in container %s", id)
		}
	}
	return nil
}

func content(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestHooksRunAfterTheStartAndBeforeTheStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := started(t, map[string]string{"hooked.yaml": manifest(newPod("hooked", "trap 'echo term >>/h/order; exit 5' TERM; sleep 100000 & wait",
		hooks(10, corev1.Lifecycle{
			PostStart: execHandler("until [ -e /h/go ]; do sleep 0.1; done; echo started >>/h/order"),
			PreStop:   execHandler("echo drained >>/h/order; sleep 1"),
		}), host(dir)))})
	p := a.pod("hooked", "has its container made", func(p *corev1.Pod) bool {
		return len(a.containers()) == 1 && p.Status.Phase == corev1.PodPending
	})
	if s := container(p, "main").State; s.Waiting == nil || s.Waiting.Reason != "ContainerCreating" {
		t.Errorf("while its postStart hook runs the container shows %+v", s)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p = a.pod("hooked", "ready", ready)
	after := a.journal.last()
	a.Remove("hooked.yaml")
	end, at := ended(a, after, p, "main"), removed(a, after, p)
	if order := content(t, dir, "order"); order != "started\ndrained\nterm\n" {
		t.Errorf("what ran was %q", order)
	}
	if took := end.GetFinishedAt().AsTime().Sub(at); end.GetExitCode() != 5 || took < time.Second || took > 8*time.Second {
		t.Errorf("it ended with %d after %s; want its own code, after the hook's second", end.GetExitCode(), took)
	}
	a.gone()
}

func TestAFailedPostStartHookRestartsItsContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := started(t, map[string]string{"failing.yaml": manifest(newPod("failing", idle, hooks(2, corev1.Lifecycle{
		PostStart: execHandler("test -e /h/ran || { touch /h/ran; echo not yet; exit 3; }"),
	}), host(dir)))})
	p := a.pod("failing", "runs again", func(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount > 0 })
	if n := container(p, "main").RestartCount; n != 1 {
		t.Errorf("it was restarted %d times", n)
	}
	out, _, _ := a.CLI("pod", "failing")
	for _, want := range []string{"FailedPostStartHook", "Exec lifecycle hook", "Killing"} {
		if !strings.Contains(out, want) {
			t.Errorf("`journalet pod` does not tell %q:\n%s", want, out)
		}
	}
}

// A hook by HTTP goes to the pod's address; and one deadline holds for hook and stop together.
func TestAPreStopHookByHTTPIsAskedForWithinTheGrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// It answers when it has been asked: an answer that comes before the question ends a client's connection.
	a := started(t, map[string]string{"web.yaml": manifest(newPod("web",
		`trap '' TERM; mkfifo /answer; (nc -l -p 8080 </answer | (while read -r l; do echo "$l"; [ ${#l} -le 1 ] && break; done >/h/asked; printf 'HTTP/1.0 200 OK\r\n\r\n') >/answer) & until cat /proc/net/tcp* | grep -q ':1F90 '; do sleep 0.1; done; touch /h/up; while true; do sleep 1; done`,
		func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		},
		hooks(4, corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/drain?now", Port: intstr.FromString("web")},
		}}), host(dir)))})
	p := a.pod("web", "listens", func(p *corev1.Pod) bool {
		_, err := os.Stat(filepath.Join(dir, "up"))
		return ready(p) && err == nil
	})
	after := a.journal.last()
	a.Remove("web.yaml")
	end, at := ended(a, after, p, "main"), removed(a, after, p)
	if asked := content(t, dir, "asked"); !strings.HasPrefix(asked, "GET /drain?now HTTP/1.1") || !strings.Contains(asked, "User-Agent: kube-lifecycle/1.37") {
		t.Errorf("it was asked\n%s", asked)
	}
	if took := end.GetFinishedAt().AsTime().Sub(at); end.GetExitCode() != 137 || took < 3500*time.Millisecond || took > 7*time.Second {
		t.Errorf("one that is deaf ended with %d after %s; want 137 after the 4 s that it has", end.GetExitCode(), took)
	}
}

func TestAPreStopHookThatHangsEndsWithTheGrace(t *testing.T) {
	t.Parallel()
	a := started(t, map[string]string{"hanging.yaml": manifest(newPod("hanging", "sleep 100000", hooks(4, corev1.Lifecycle{
		PreStop: execHandler("sleep 1000"),
	}), func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = ptr.To(true) }))})
	p := a.pod("hanging", "ready", ready)
	after := a.journal.last()
	a.Remove("hanging.yaml")
	a.journal.wait(t, after, settle, "the hook", func(f bus.Flat) bool { return event(t, f).GetCallRequested().GetRunHook() != nil })
	out, _, _ := a.CLI("pod", "hanging")
	if !strings.Contains(out, "Termination waits for") || !strings.Contains(out, "run the preStop hook of container main") {
		t.Errorf("`journalet pod` does not tell what the pod waits for:\n%s", out)
	}
	end, at := ended(a, after, p, "main"), removed(a, after, p)
	// It is not the first process of its namespace, so SIGTERM ends it.
	if took := end.GetFinishedAt().AsTime().Sub(at); end.GetExitCode() != 143 || took < 3500*time.Millisecond || took > 7*time.Second {
		t.Errorf("it ended with %d after %s; want 143 after 4 s", end.GetExitCode(), took)
	}
	a.gone()
}

func TestAContainerEndsByTheStopSignalOfItsManifest(t *testing.T) {
	t.Parallel()
	a := started(t, map[string]string{"signalled.yaml": manifest(newPod("signalled",
		"trap '' TERM; trap 'exit 7' USR1; while true; do sleep 0.1; done",
		hooks(20, corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGUSR1)}),
		func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }))})
	p := a.pod("signalled", "ready", ready)
	after := a.journal.last()
	a.Remove("signalled.yaml")
	if end := ended(a, after, p, "main"); end.GetExitCode() != 7 {
		t.Errorf("it ended with %d, want 7 by SIGUSR1", end.GetExitCode())
	}
}

// The hook of a pod that ends when the agent is killed is run again by the next one, and its container is stopped in time;
// the sidecar comes last.
func TestAPodThatEndsGoesOnEndingAfterTheAgentWasKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tell := func(what string) string {
		return "trap 'echo " + what + " >>/h/order; exit 0' TERM; sleep 100000 & wait"
	}
	a := started(t, map[string]string{"ending.yaml": manifest(newPod("ending", tell("main"), hooks(20, corev1.Lifecycle{
		PreStop: execHandler("echo hook >>/h/order; until [ -e /h/go ]; do sleep 0.1; done"),
	}), before(sidecar("proxy", tell("proxy"))), host(dir)))})
	p := a.pod("ending", "ready", ready)
	after := a.journal.last()
	a.Remove("ending.yaml")
	eventually(t, settle, "the hook to run", func() error {
		if _, err := os.Stat(filepath.Join(dir, "order")); err != nil {
			return err
		}
		return execReturned(container(p, "main").ContainerID)
	})
	a.Kill()
	a.start()
	again := a.journal.wait(t, after, settle, "the hook in doubt", func(f bus.Flat) bool { return event(t, f).GetCallDispatched().GetInDoubt() })
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	end, sidecarEnd := ended(a, again.Seq, p, "main"), ended(a, again.Seq, p, "proxy")
	if order := content(t, dir, "order"); strings.TrimPrefix(order, "hook\n") != "hook\nmain\nproxy\n" {
		t.Errorf("what ran was %q", order)
	}
	if took := end.GetFinishedAt().AsTime().Sub(removed(a, after, p)); took > 20*time.Second || sidecarEnd.GetExitCode() != 0 {
		t.Errorf("it took %s to end, and the sidecar ended with %d", took, sidecarEnd.GetExitCode())
	}
	a.gone()
}
