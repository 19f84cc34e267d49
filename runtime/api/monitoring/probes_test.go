package monitoring

import (
	"strings"
	"testing"
	"time"
)

func TestProbesAreCountedUnderTheKubeletsNamesUntilTheirPodIsGone(t *testing.T) {
	m := NewMetrics(nil)
	url := serve(t, Options{Metrics: m}) + "/metrics"
	a := Probe{Type: "Readiness", Container: "main", Pod: "a", Namespace: "default", PodUID: "1"}
	b := Probe{Type: "Liveness", Container: "main", Pod: "b", Namespace: "default", PodUID: "2"}
	m.Probed(a, ProbeSuccessful, 20*time.Millisecond)
	m.Probed(a, ProbeFailed, time.Second)
	m.Probed(b, ProbeUnknown, time.Second)
	_, body := get(t, url)
	const total = `prober_probe_total{container="main",namespace="default",`
	for _, line := range []string{
		total + `pod="a",pod_uid="1",probe_type="Readiness",result="successful"} 1`,
		total + `pod="a",pod_uid="1",probe_type="Readiness",result="failed"} 1`,
		total + `pod="b",pod_uid="2",probe_type="Liveness",result="unknown"} 1`,
		`prober_probe_duration_seconds_count{container="main",namespace="default",pod="a",probe_type="Readiness"} 1`,
	} {
		if !strings.Contains(body, line) {
			t.Errorf("no line %s", line)
		}
	}
	m.ForgetProbes("default", "a", "1")
	_, body = get(t, url)
	if strings.Contains(body, `pod="a"`) || !strings.Contains(body, `pod="b"`) {
		t.Error("the counts of a forgotten pod are left, or those of another pod are gone")
	}
}
