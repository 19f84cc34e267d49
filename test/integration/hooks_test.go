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

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func execHandler(script string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}
}

// hooks gives the first container of a pod hooks, and the pod a grace period in seconds.
func hooks(grace int64, l corev1.Lifecycle) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds, p.Spec.Containers[0].Lifecycle = &grace, &l
	}
}

// ended waits for the observation, after a record, that a container of a pod has exited.
func ended(a *agent, after uint64, p *corev1.Pod, name string) *journaletv1.ContainerObservation {
	a.T.Helper()
	var end *journaletv1.ContainerObservation
	a.journal.wait(a.T, after, settle, "the end of "+p.Name+" "+name, func(f messages.Flat) bool {
		o := event(a.T, f).GetPodObserved()
		for _, c := range o.GetContainers() {
			if o.GetUid() == string(p.UID) && c.GetName() == name &&
				c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED {
				end = c
			}
		}
		return end != nil
	})
	return end
}

// removed returns when the agent decided to end a pod, after a record.
func removed(a *agent, after uint64, p *corev1.Pod) time.Time {
	a.T.Helper()
	return moment(a.T, a.journal.wait(a.T, after, settle, "the removal of "+p.Name, func(f messages.Flat) bool {
		u := event(a.T, f).GetPodUpdated()
		return u.GetPod().GetUid() == string(p.UID) && u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_REMOVE
	}))
}

// execReturned returns an error while runc still sets up a process in a container. If the caller of ExecSync goes away
// just then, containerd reports the container's end up to 30 s late, however it is stopped (docs/SCOPE.md, "Know before
// you rely on it").
func execReturned(containerID string) error {
	id := containerID[strings.LastIndex(containerID, "/")+1:]
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, file := range commands {
		// The process may have ended since.
		line, err := os.ReadFile(file)
		args := strings.Split(string(line), "\x00")
		if err == nil && slices.Contains(args, "exec") && slices.Contains(args, id) {
			return fmt.Errorf("runc still starts a process in container %s", id)
		}
	}
	return nil
}

func TestHooksRunAfterTheStartAndBeforeTheStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const script = "trap 'echo term >>/h/order; exit 5' TERM; sleep 100000 & wait"
	a := started(t, onePod("hooked", script,
		hooks(10, corev1.Lifecycle{
			PostStart: execHandler("until [ -e /h/go ]; do sleep 0.1; done; echo started >>/h/order"),
			PreStop:   execHandler("echo drained >>/h/order; sleep 1"),
		}), host(dir)))
	p := a.pod("hooked", "has its container created", func(p *corev1.Pod) bool {
		return len(a.containers()) == 1 && p.Status.Phase == corev1.PodPending
	})
	if s := container(p, "main").State; s.Waiting == nil || s.Waiting.Reason != "ContainerCreating" {
		t.Errorf("while its postStart hook runs the container shows %+v", s)
	}
	writeFile(t, filepath.Join(dir, "go"), "")
	p = a.pod("hooked", "ready", ready)
	after := a.journal.last()
	a.Remove("hooked.yaml")
	end, at := ended(a, after, p, "main"), removed(a, after, p)
	equal(t, "the order of hooks and signal", readFile(t, dir, "order"), "started\ndrained\nterm")
	wantEnd(t, end, 5, at, time.Second, 8*time.Second)
	a.gone()
}

// wantEnd checks a container's exit code, and the time from an event to its end.
func wantEnd(t *testing.T, end *journaletv1.ContainerObservation, code int32, from time.Time,
	least, most time.Duration) {
	t.Helper()
	if took := end.GetFinishedAt().AsTime().Sub(from); end.GetExitCode() != code || took < least || took > most {
		t.Errorf("it ended with %d after %s, want %d after %s to %s", end.GetExitCode(), took, code, least, most)
	}
}

func TestFailedPostStartHookRestartsItsContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := started(t, onePod("failing", idle, hooks(2, corev1.Lifecycle{
		PostStart: execHandler("test -e /h/ran || { touch /h/ran; echo not yet; exit 3; }"),
	}), host(dir)))
	p := a.pod("failing", "ready again", restarted)
	if n := container(p, "main").RestartCount; n != 1 {
		t.Errorf("it was restarted %d times", n)
	}
	a.prints(p, "FailedPostStartHook", "Exec lifecycle hook", "Killing")
}

// An HTTP hook goes to the pod's address. One deadline covers hook and stop.
func TestHTTPPreStopHookRunsWithinTheGracePeriod(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The server reads the request before it responds: an earlier response ends a client's connection.
	const server = `trap '' TERM; mkfifo /response
(nc -l -p 8080 </response | (
  while read -r l; do echo "$l"; [ ${#l} -le 1 ] && break; done >/h/request
  printf 'HTTP/1.0 200 OK\r\n\r\n'
) >/response) &
until cat /proc/net/tcp* | grep -q ':1F90 '; do sleep 0.1; done
touch /h/up
while true; do sleep 1; done`
	a := started(t, onePod("web", server,
		func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		},
		hooks(4, corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/drain?now", Port: intstr.FromString("web")},
		}}), host(dir)))
	p := a.pod("web", "listens", func(p *corev1.Pod) bool {
		_, err := os.Stat(filepath.Join(dir, "up"))
		return ready(p) && err == nil
	})
	after := a.journal.last()
	a.Remove("web.yaml")
	end, at := ended(a, after, p, "main"), removed(a, after, p)
	request := readFile(t, dir, "request")
	if !strings.HasPrefix(request, "GET /drain?now HTTP/1.1") ||
		!strings.Contains(request, "User-Agent: kube-lifecycle/1.37") {
		t.Errorf("the request is\n%s", request)
	}
	wantEnd(t, end, 137, at, 3500*time.Millisecond, 7*time.Second)
}

func TestHungPreStopHookEndsWithTheGracePeriod(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("hanging", "sleep 100000", hooks(4, corev1.Lifecycle{
		PreStop: execHandler("sleep 1000"),
	}), func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = ptr.To(true) }))
	p := a.pod("hanging", "ready", ready)
	after := a.journal.last()
	a.Remove("hanging.yaml")
	a.journal.wait(t, after, settle, "the hook", func(f messages.Flat) bool {
		return event(t, f).GetCallRequested().GetRunHook() != nil
	})
	a.prints(p, "Termination waits for", "run the preStop hook of container main")
	end, at := ended(a, after, p, "main"), removed(a, after, p)
	// It is not PID 1 of its namespace, so SIGTERM ends it.
	wantEnd(t, end, 143, at, 3500*time.Millisecond, 7*time.Second)
	a.gone()
}

func TestContainerGetsTheStopSignalOfItsManifest(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("signalled",
		"trap '' TERM; trap 'exit 7' USR1; while true; do sleep 0.1; done",
		hooks(20, corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGUSR1)}),
		func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }))
	p := a.pod("signalled", "ready", ready)
	after := a.journal.last()
	a.Remove("signalled.yaml")
	if end := ended(a, after, p, "main"); end.GetExitCode() != 7 {
		t.Errorf("it ended with %d, want 7 by SIGUSR1", end.GetExitCode())
	}
}

// The next agent runs the preStop hook again, then stops the main container within the grace period, the sidecar last.
func TestTerminationContinuesAfterTheAgentIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writes := func(name string) string {
		return "trap 'echo " + name + " >>/h/order; exit 0' TERM; sleep 100000 & wait"
	}
	a := started(t, onePod("ending", writes("main"), hooks(20, corev1.Lifecycle{
		PreStop: execHandler("echo hook >>/h/order; until [ -e /h/go ]; do sleep 0.1; done"),
	}), withInit(sidecar("proxy", writes("proxy"))), host(dir)))
	p := a.pod("ending", "ready", ready)
	after := a.journal.last()
	a.Remove("ending.yaml")
	eventually(t, settle, "the hook to run", func() error {
		if _, err := os.Stat(filepath.Join(dir, "order")); err != nil {
			return err
		}
		return execReturned(container(p, "main").ContainerID)
	})
	a.crash()
	again := a.journal.wait(t, after, settle, "the hook in doubt", func(f messages.Flat) bool {
		return event(t, f).GetCallDispatched().GetInDoubt()
	})
	writeFile(t, filepath.Join(dir, "go"), "")
	end, sidecarEnd := ended(a, again.Seq, p, "main"), ended(a, again.Seq, p, "proxy")
	equal(t, "the order of hook and signals", strings.TrimPrefix(readFile(t, dir, "order"), "hook\n"), "hook\nmain\nproxy")
	wantEnd(t, end, 0, removed(a, after, p), 0, 20*time.Second)
	if code := sidecarEnd.GetExitCode(); code != 0 {
		t.Errorf("the sidecar ended with %d", code)
	}
	a.gone()
}
