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
	"github.com/journalet/journalet/test/strict"
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

// request returns the first request for a call of a pod that fits, after a record.
func request(
	a *agent, after uint64, p *corev1.Pod, what string, fits func(*journaletv1.CallRequested) bool,
) messages.Flat {
	a.T.Helper()
	return a.journal.wait(a.T, after, settle, "the request: "+what, func(f messages.Flat) bool {
		c := event(a.T, f).GetCallRequested()
		return c.GetPodUid() == string(p.UID) && fits(c)
	})
}

// stopRequest returns the first request to stop a container of a pod, after a record.
func stopRequest(a *agent, after uint64, p *corev1.Pod, name string) messages.Flat {
	a.T.Helper()
	return request(a, after, p, "stop "+p.Name+" "+name, func(c *journaletv1.CallRequested) bool {
		return c.GetStopContainer().GetContainer() == name
	})
}

// preStop returns the outcome of the first preStop hook of a pod, after a record.
func preStop(a *agent, after uint64, p *corev1.Pod) messages.Flat {
	a.T.Helper()
	hook := request(a, after, p, "the preStop hook of "+p.Name, func(c *journaletv1.CallRequested) bool {
		return c.GetRunHook().GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP
	})
	return a.journal.wait(a.T, hook.Seq, settle, "the outcome of "+hook.ID, func(f messages.Flat) bool {
		return event(a.T, f).GetCallFinished().GetIntentId() == hook.ID
	})
}

// decided returns when an event was decided: the time of the record that led to it. It may be stored later.
func decided(a *agent, f messages.Flat) time.Time {
	a.T.Helper()
	return moment(a.T, a.journal.wait(a.T, 0, settle, "the cause of "+f.ID, func(cause messages.Flat) bool {
		return cause.Seq == f.Cause
	}))
}

// wantRest checks that a stop has what is left of a pod's grace period at its decision, in whole seconds, but 2 s at
// least.
func wantRest(a *agent, stop messages.Flat, end time.Time) {
	a.T.Helper()
	left := end.Sub(decided(a, stop))
	want := max(2*time.Second, (left + time.Second - 1).Truncate(time.Second))
	if got := event(a.T, stop).GetCallRequested().GetStopContainer().GetGrace().AsDuration(); got != want {
		a.T.Errorf("a stop that is decided %s before the end of the grace period has %s, want %s", left, got, want)
	}
}

// removed returns when the agent decided to end a pod, after a record: its grace period begins then.
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
	const script = "trap 'echo term >>/h/order; exit 5' TERM; echo trapped; sleep 100000 & wait"
	a := started(t, onePod("hooked", script,
		hooks(30, corev1.Lifecycle{
			PostStart: execHandler("until [ -e /h/go ]; do sleep 0.1; done; echo started >>/h/order"),
			PreStop:   execHandler("echo drained >>/h/order; sleep 1"),
		}), with(shell("behind", "echo behind >>/h/order; echo written; "+idle)), host(dir)))
	p := a.pod("hooked", "has its container created", func(p *corev1.Pod) bool {
		return len(a.containers()) == 1 && p.Status.Phase == corev1.PodPending
	})
	if s := container(p, "main").State; s.Waiting == nil || s.Waiting.Reason != "ContainerCreating" {
		t.Errorf("while its postStart hook runs the container shows %+v", s)
	}
	writeFile(t, filepath.Join(dir, "go"), "")
	p = a.pod("hooked", "ready", ready)
	a.logged(p, "main", "trapped")
	a.logged(p, "behind", "written")
	after := a.journal.last()
	a.Remove("hooked.yaml")
	end, at := ended(a, after, p, "main"), removed(a, after, p)
	equal(t, "the order of hooks, starts and signal", readFile(t, dir, "order"), "started\nbehind\ndrained\nterm")
	if hook, stop := preStop(a, after, p), stopRequest(a, after, p, "main"); stop.Seq < hook.Seq {
		t.Errorf("its stop is requested in record %d, before the end of its hook in record %d", stop.Seq, hook.Seq)
	}
	wantEnd(t, end, 5, at, time.Second, 8*time.Second)
	a.gone()
}

// wantEnd checks a container's exit code, and that it ended no sooner than least after an event. With -strict.time it
// must have ended within most.
func wantEnd(t *testing.T, end *journaletv1.ContainerObservation, code int32, from time.Time,
	least, most time.Duration) {
	t.Helper()
	took := end.GetFinishedAt().AsTime().Sub(from)
	if end.GetExitCode() != code || took < least {
		t.Errorf("it ended with %d after %s, want %d after %s at least", end.GetExitCode(), took, code, least)
	}
	strict.Within(t, "the end of a container", took, most)
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
	text := readFile(t, dir, "request")
	if !strings.HasPrefix(text, "GET /drain?now HTTP/1.1") ||
		!strings.Contains(text, "User-Agent: kube-lifecycle/1.37") {
		t.Errorf("the request is\n%s", text)
	}
	stop := stopRequest(a, after, p, "main")
	wantRest(a, stop, at.Add(4*time.Second))
	// The runtime gets the stop, with its grace period, after the request was stored.
	grace := event(t, stop).GetCallRequested().GetStopContainer().GetGrace().AsDuration()
	wantEnd(t, end, 137, moment(t, stop), grace, 7*time.Second)
}

func TestHungPreStopHookEndsWithTheGracePeriod(t *testing.T) {
	t.Parallel()
	const grace = 12 // the command that prints what the termination waits for takes a while
	a := started(t, onePod("hanging", "sleep 100000", hooks(grace, corev1.Lifecycle{
		PreStop: execHandler("sleep 1000"),
	}), func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = ptr.To(true) }))
	p := a.pod("hanging", "ready", ready)
	after := a.journal.last()
	a.Remove("hanging.yaml")
	request(a, after, p, "the hook", func(c *journaletv1.CallRequested) bool { return c.GetRunHook() != nil })
	a.prints(p, "Termination waits for", "run the preStop hook of container main")
	end, at := ended(a, after, p, "main"), removed(a, after, p)
	stop := stopRequest(a, after, p, "main")
	if took := decided(a, stop).Sub(at); took < grace*time.Second {
		t.Errorf("its stop is decided %s after its removal, want its whole grace period of %d s", took, grace)
	}
	wantRest(a, stop, at.Add(grace*time.Second))
	// It is not PID 1 of its namespace, so SIGTERM ends it.
	wantEnd(t, end, 143, at, grace*time.Second, (grace+3)*time.Second)
	a.gone()
}

func TestContainerGetsTheStopSignalOfItsManifest(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("signalled",
		"trap '' TERM; trap 'exit 7' USR1; echo trapped; while true; do sleep 0.1; done",
		hooks(20, corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGUSR1)}),
		func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }))
	p := a.pod("signalled", "ready", ready)
	a.logged(p, "main", "trapped")
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
	const grace = 60 // longer than a restart of the agent takes
	a := started(t, onePod("ending", writes("main"), hooks(grace, corev1.Lifecycle{
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
	wantRest(a, stopRequest(a, again.Seq, p, "main"), removed(a, after, p).Add(grace*time.Second))
	wantEnd(t, end, 0, removed(a, after, p), 0, grace*time.Second)
	if code := sidecarEnd.GetExitCode(); code != 0 {
		t.Errorf("the sidecar ended with %d", code)
	}
	a.gone()
}
