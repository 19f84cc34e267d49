//go:build integration

package integration

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
)

// webServer serves /www at the port named web.
const webServer = "mkdir -p /www; echo hello > /www/index.html; trap 'exit 0' TERM; httpd -f -p 8080 -h /www & wait"

// probing gives the first container of a pod probes that run every second and believe one result.
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
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}, TimeoutSeconds: 5}
}

func httpProbe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("web")}},
		TimeoutSeconds: 5,
	}
}

func tcpProbe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("web")}},
		TimeoutSeconds: 5, FailureThreshold: 30,
	}
}

func unready(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && !ready(p) }

// visible waits for the result of a probe after a record, and for the status that follows from it, and tells how long after
// the result the status was decided and seen by an observer.
func visible(t *testing.T, a *agent, after uint64, uid string, ok bool) {
	t.Helper()
	told := a.journal.wait(t, after, settle, "a result of the readiness probe", func(f bus.Flat) bool {
		r := event(t, f).GetProbeResult()
		return r.GetUid() == uid && r.GetKind() == journaletv1.ProbeKind_PROBE_KIND_READINESS && r.GetSuccess() == ok
	})
	status := a.journal.wait(t, told.Seq, settle, "the status that follows from it", func(f bus.Flat) bool {
		return f.Cause == told.Seq && f.Event == "pod_status_changed"
	})
	seen := time.Now()
	at := moment(t, told)
	t.Logf("ready=%t: decided %s after the probe's result, seen by an observer %s after it", ok, moment(t, status).Sub(at), seen.Sub(at))
}

func moment(t *testing.T, f bus.Flat) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, f.Time)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestACommandSaysWhetherAContainerIsReady(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("gated", idle, probing(func(c *corev1.Container) { c.ReadinessProbe = execProbe("cat /tmp/ready") })))
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
		t.Errorf("readiness has restarted it %d times", n)
	}
	out, _, _ := a.CLI("pod", p.Name)
	if !strings.Contains(out, "Unhealthy") || !strings.Contains(out, "Readiness probe failed: cat: can't open '/tmp/ready'") {
		t.Errorf("the pod's report does not tell of the failure:\n%s", out)
	}
}

func TestAServerSaysAtThePodsAddressWhetherItIsReady(t *testing.T) {
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

	// A restart of the agent changes nothing, and what was told is not told again.
	a.Stop()
	a.start()
	after = a.journal.wait(t, f.Seq, settle, "the next start", named("agent_started")).Seq
	setup.Runtime.Exec(t, id, "sh", "-c", "echo hello > /www/index.html")
	a.pod("web", "ready again", ready)
	if n := a.journal.count(func(f bus.Flat) bool { return f.Seq > after && f.Event == "probe_result" }); n != 1 {
		t.Errorf("%d results were told after the restart, want the one that is new", n)
	}
}

func TestAFailedLivenessProbeRestartsItsContainer(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("alive", idle, probing(func(c *corev1.Container) {
		c.LivenessProbe = execProbe("test ! -e /tmp/dead || { echo it is dead; exit 1; }")
	})))
	before := container(a.pod("alive", "ready", ready), "main")
	setup.Runtime.Exec(t, before.ContainerID, "touch", "/tmp/dead")
	p := a.pod("alive", "ready again", func(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount > 0 })
	after := container(p, "main")
	if after.RestartCount != 1 || after.ContainerID == before.ContainerID || after.LastTerminationState.Terminated == nil {
		t.Errorf("after the failure: %+v", after)
	}
	out, _, _ := a.CLI("pod", p.Name)
	for _, want := range []string{"Unhealthy", "Liveness probe failed: it is dead", "Killing", "Container main failed liveness probe, will be restarted"} {
		if !strings.Contains(out, want) {
			t.Errorf("the pod's report does not tell %q:\n%s", want, out)
		}
	}
}

func TestACommandThatTakesTooLongHasFailed(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("slow", idle, probing(func(c *corev1.Container) {
		c.ReadinessProbe = execProbe("sleep 30")
		c.ReadinessProbe.TimeoutSeconds = 1
	})))
	a.journal.wait(t, 0, settle, "the failure", named("probe_result", "Readiness probe failed: command timed out after 1s"))
	if p := a.podNow("slow"); ready(p) {
		t.Error("the pod is ready")
	}
}

func TestAPodWithoutProbesJournalsNothingOfThem(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("plain", idle))
	a.pod("plain", "ready", ready)
	if n := a.journal.count(func(f bus.Flat) bool { return f.Event == "probes_set" || f.Event == "probe_result" }); n != 0 {
		t.Errorf("%d records are about probes", n)
	}
}
