//go:build integration

package integration

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/test/must"
)

// control runs a request with the key for requests that change something.
func (a *agent) control(do func(ctx context.Context, c *query.Client) error) {
	a.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	nc, err := bus.DialControl(ctx, a.Root+"/bus")
	must.OK(a.T, err)
	defer nc.Close()
	c, err := query.NewLocalClient(ctx, nc, nil)
	must.OK(a.T, err)
	must.OK(a.T, do(ctx, c))
}

func (a *agent) restart(pod, container string) {
	a.T.Helper()
	a.control(func(ctx context.Context, c *query.Client) error {
		_, err := c.Restart(ctx, query.RestartRequest{Pod: pod, Container: container, Client: "test"})
		return err
	})
}

// quits is a program that ends with 7 at SIGTERM, if its preStop hook has written a file before.
const quits = "trap 'test -e /v/prestop && exit 7; exit 8' TERM; echo trapped; while :; do sleep 0.1; done"

func TestRestartKeepsTheSandboxAndRunsThePreStopHook(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("web", quits, restarts(corev1.RestartPolicyNever), with(shell("other", "exit 0")), scratch,
		func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
				Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "touch /v/prestop"}},
			}}
		}))
	ended := func(p *corev1.Pod) bool { return container(p, "other").State.Terminated != nil }
	p := a.pod("web", "running", func(p *corev1.Pod) bool {
		return container(p, "main").State.Running != nil && ended(p)
	})
	a.logged(p, "main", "trapped")
	a.restart("web", "main")
	a.restart("web", "main")
	p = a.pod("web", "running again", func(p *corev1.Pod) bool {
		return container(p, "main").State.Running != nil && container(p, "main").RestartCount > 0
	})
	if last := container(p, "main").LastTerminationState.Terminated; last == nil || last.ExitCode != 7 {
		t.Errorf("main ended with %v, want exit code 7 after its preStop hook", last)
	}
	a.restart("web", "other")
	p = a.pod("web", "its other container restarted", func(p *corev1.Pod) bool {
		return container(p, "other").RestartCount == 1 && ended(p)
	})
	if n := container(p, "main").RestartCount; n != 1 {
		t.Errorf("main has restarted %d times, want once", n)
	}
	a.wantSandboxes(1)
	a.Verified()
}

func TestDrainEndsPodsByPriorityAndUncordonRunsThemAgain(t *testing.T) {
	t.Parallel()
	priority := func(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }
	critical := func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }
	a := started(t, manifests(newPod("low", idle, priority(-1)), newPod("web", idle), newPod("dns", idle, critical)))
	pods := a.pods("three pods ready", allReady(3))
	dns := container(pods["dns"], "main").ContainerID
	drain := func(ctx context.Context, c *query.Client) error {
		seconds := int64(5)
		_, err := c.BeginDrain(ctx, query.DrainRequest{Client: "test", GraceSeconds: &seconds})
		return err
	}
	a.control(drain)
	drained := func(pods map[string]*corev1.Pod) bool {
		for _, name := range []string{"low", "web"} {
			if p := pods[name]; p.Status.Reason != "NodeDrained" || container(p, "main").State.Terminated == nil {
				return false
			}
		}
		return ready(pods["dns"])
	}
	pods = a.pods("low and web to end", drained)
	end := func(name string) time.Time { return container(pods[name], "main").State.Terminated.FinishedAt.Time }
	if end("web").Before(end("low")) {
		t.Errorf("web ended at %s, before low at %s", end("web"), end("low"))
	}
	a.put(newPod("new", idle))
	waits := func(pods map[string]*corev1.Pod) bool {
		p := pods["new"]
		return drained(pods) && p != nil && p.Status.Reason == "NodeDrained" && phase(corev1.PodPending)(p)
	}
	a.pods("new to wait", waits)
	a.crash()
	a.pods("the drain to outlive a crash", waits)
	a.control(func(ctx context.Context, c *query.Client) error {
		_, err := c.Uncordon(ctx, query.UncordonRequest{Client: "test"})
		return err
	})
	pods = a.pods("four pods ready", allReady(4))
	if id := container(pods["dns"], "main").ContainerID; id != dns {
		t.Error("the system-critical pod was restarted")
	}
	a.Verified()
}
