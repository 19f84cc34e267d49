package monitoring

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of a probe, with the kubelet's names.
const (
	ProbeSuccessful = "successful"
	ProbeFailed     = "failed"
	ProbeUnknown    = "unknown"
)

// Probe identifies a probe of the node. Its counts are deleted with its pod.
type Probe struct {
	// Type is Startup, Liveness or Readiness.
	Type                              string
	Container, Pod, Namespace, PodUID string
}

// probeMetrics have the kubelet's names.
type probeMetrics struct {
	total     *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func (m *Metrics) newProbes() probeMetrics {
	return probeMetrics{
		total: m.counters("prober_probe_total", "Runs of container probes by result.",
			"probe_type", "result", "container", "pod", "namespace", "pod_uid"),
		durations: m.histograms("prober_probe_duration_seconds", "Duration of successful container probes.",
			prometheus.DefBuckets, "probe_type", "container", "pod", "namespace"),
	}
}

// Probed counts one run of a probe with one of the results above. As in the kubelet, only successes are timed.
func (m *Metrics) Probed(p Probe, result string, took time.Duration) {
	m.probes.total.WithLabelValues(p.Type, result, p.Container, p.Pod, p.Namespace, p.PodUID).Inc()
	if result == ProbeSuccessful {
		m.probes.durations.WithLabelValues(p.Type, p.Container, p.Pod, p.Namespace).Observe(took.Seconds())
	}
}

// ForgetProbes deletes the counts of a pod's probes.
func (m *Metrics) ForgetProbes(namespace, name, uid string) {
	m.probes.total.DeletePartialMatch(prometheus.Labels{"pod_uid": uid})
	m.probes.durations.DeletePartialMatch(prometheus.Labels{"pod": name, "namespace": namespace})
}
