//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// webServer serves /www at the port named web, and prints a line for each response.
const webServer = "mkdir -p /www; echo hello > /www/index.html; trap 'exit 0' TERM; httpd -f -v -p 8080 -h /www & wait"

// patience is the timeout of a probe, in seconds. A probe that fails at its first failure must not fail because the
// machine is busy.
const patience = 60

// probing gives the first container of a pod probes with a period of 1 s that fail at the first failure.
func probing(set func(*corev1.Container)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		set(c)
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if probe != nil {
				probe.PeriodSeconds, probe.FailureThreshold = 1, max(1, probe.FailureThreshold)
			}
		}
	}
}

func execProbe(script string) *corev1.Probe {
	exec := &corev1.ExecAction{Command: []string{"sh", "-c", script}}
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: exec}, TimeoutSeconds: patience}
}

func httpProbe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("web")}},
		TimeoutSeconds: patience,
	}
}

func tcpProbe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("web")}},
		TimeoutSeconds: patience, FailureThreshold: 300,
	}
}

func unready(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && !ready(p) }

// visible waits for a result of the readiness probe after a record, and for the status that follows from it. It logs
// how long after the result the status was decided, and received by an observer.
func visible(t *testing.T, a *agent, after uint64, uid string, ok bool) {
	t.Helper()
	result := a.journal.wait(t, after, settle, "a result of the readiness probe", func(f messages.Flat) bool {
		r := event(t, f).GetProbeResult()
		return r.GetUid() == uid && r.GetKind() == journaletv1.ProbeKind_PROBE_KIND_READINESS && r.GetSuccess() == ok
	})
	status := a.journal.wait(t, result.Seq, settle, "the status that follows from it", func(f messages.Flat) bool {
		return f.Cause == result.Seq && f.Event == "pod_status_changed"
	})
	received := time.Now()
	at := moment(t, result)
	t.Logf("ready=%t: decided %s after the probe's result, received by an observer %s after it",
		ok, moment(t, status).Sub(at), received.Sub(at))
}

// moment returns when an event was recorded.
func moment(t *testing.T, f messages.Flat) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, f.Time)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestExecProbeDecidesReadiness(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("gated", idle, probing(func(c *corev1.Container) {
		c.ReadinessProbe = execProbe("cat /tmp/ready")
	})))
	p := a.pod("gated", "runs and is not ready", unready)
	id, uid := container(p, "main").ContainerID, string(p.UID)
	for range 2 {
		after := a.journal.last()
		setup.Runtime.Exec(t, id, "touch", "/tmp/ready")
		a.pod("gated", "ready", ready)
		visible(t, a, after, uid, true)
		after = a.journal.last()
		setup.Runtime.Exec(t, id, "rm", "/tmp/ready")
		a.pod("gated", "not ready any more", unready)
		visible(t, a, after, uid, false)
	}
	if n := container(a.podNow("gated"), "main").RestartCount; n != 0 {
		t.Errorf("the readiness probe restarted the container %d times", n)
	}
	a.prints(p, "Unhealthy", "Readiness probe failed: cat: can't open '/tmp/ready'")
}

// prints checks that `journalet pod` prints all words.
func (a *agent) prints(p *corev1.Pod, words ...string) {
	a.T.Helper()
	out, _, _ := a.CLI("pod", a.ShortName(p.Name))
	for _, w := range words {
		if !strings.Contains(out, w) {
			a.T.Errorf("`journalet pod %s` does not print %q:\n%s", p.Name, w, out)
		}
	}
}

func TestHTTPProbeAtThePodIPDecidesReadiness(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("web", webServer, probing(func(c *corev1.Container) {
		c.StartupProbe, c.ReadinessProbe = tcpProbe(), httpProbe("/index.html")
	})))
	p := a.pod("web", "ready", ready)
	id := container(p, "main").ContainerID
	after := a.journal.last()
	setup.Runtime.Exec(t, id, "rm", "/www/index.html")
	a.pod("web", "not ready any more", unready)
	visible(t, a, after, string(p.UID), false)
	f := a.journal.wait(t, after, settle, "why", named("probe_result", "HTTP probe failed with statuscode: 404"))

	// A restart of the agent does not report the result again.
	a.Stop()
	const failure = "response:404"
	failures := strings.Count(a.log(p, "main"), failure)
	a.start()
	eventually(t, settle, "the next failure", func() error {
		// A response to the last agent may be printed late.
		if n := strings.Count(a.log(p, "main"), failure); n < failures+2 {
			return fmt.Errorf("%d times %s, after %d", n, failure, failures)
		}
		return nil
	})
	after = a.journal.wait(t, f.Seq, settle, "the next start", named("agent_started")).Seq
	setup.Runtime.Exec(t, id, "sh", "-c", "echo hello > /www/index.html")
	a.pod("web", "ready again", ready)
	results := a.journal.all(func(f messages.Flat) bool { return f.Seq > after && f.Event == "probe_result" })
	if len(results) != 1 {
		t.Errorf("%d results were reported after the restart, want the new one: %v", len(results), results)
	}
}

func TestFailedLivenessProbeRestartsItsContainer(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("alive", idle, probing(func(c *corev1.Container) {
		c.LivenessProbe = execProbe("test ! -e /tmp/dead || { echo it is dead; exit 1; }")
	})))
	before := container(a.pod("alive", "ready", ready), "main")
	setup.Runtime.Exec(t, before.ContainerID, "touch", "/tmp/dead")
	p := a.pod("alive", "ready again", restarted)
	after := container(p, "main")
	if after.RestartCount != 1 || after.ContainerID == before.ContainerID || after.LastTerminationState.Terminated == nil {
		t.Errorf("after the failure: %+v", after)
	}
	a.prints(p, "Unhealthy", "Liveness probe failed: it is dead", "Killing",
		"Container main failed liveness probe, will be restarted")
}

func TestProbeCommandFailsAtItsTimeout(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("slow", idle, probing(func(c *corev1.Container) {
		c.ReadinessProbe = execProbe("sleep 30")
		c.ReadinessProbe.TimeoutSeconds = 1
	})))
	a.journal.wait(t, 0, settle, "the failure",
		named("probe_result", "Readiness probe failed: command timed out after 1s"))
	if p := a.podNow("slow"); ready(p) {
		t.Error("the pod is ready")
	}
}

func TestPodWithoutProbesHasNoProbeRecords(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("plain", idle))
	a.pod("plain", "ready", ready)
	n := a.journal.count(func(f messages.Flat) bool { return f.Event == "probes_set" || f.Event == "probe_result" })
	if n != 0 {
		t.Errorf("%d records are about probes", n)
	}
}
