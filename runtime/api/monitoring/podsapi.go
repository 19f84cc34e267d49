package monitoring

import "github.com/prometheus/client_golang/prometheus"

// podsAPIMetrics count requests to the PodsAPI, under the kubelet's names (pkg/kubelet/metrics/metrics.go).
type podsAPIMetrics struct {
	requests *prometheus.CounterVec
	byMethod map[string]*prometheus.CounterVec
	dropped  prometheus.Counter
}

func (m *Metrics) newPodsAPI() podsAPIMetrics {
	counters := func(name, what string) *prometheus.CounterVec {
		return m.counters("kubelet_pod_requests_"+name, what+", by version of the API and status code.",
			"server_api_version", "status_code")
	}
	return podsAPIMetrics{
		requests: counters("total", "Requests to the PodsAPI, watches at their end"),
		byMethod: map[string]*prometheus.CounterVec{
			"ListPods":  counters("list_total", "Requests ListPods to the PodsAPI"),
			"GetPod":    counters("get_total", "Requests GetPod to the PodsAPI"),
			"WatchPods": counters("watch_total", "Ended watches of the PodsAPI"),
		},
		dropped: m.counter("kubelet_pod_watch_events_dropped_total",
			"Events that a watcher of the PodsAPI was not sent, because it lags: its watch has ended."),
	}
}

// PodsRequested counts a request to the PodsAPI that the limit of the rate has let through. Methods and versions are
// the API's, codes are gRPC's.
func (m *Metrics) PodsRequested(version, method, code string) {
	m.podsAPI.requests.WithLabelValues(version, code).Inc()
	if counter := m.podsAPI.byMethod[method]; counter != nil {
		counter.WithLabelValues(version, code).Inc()
	}
}

// PodEventDropped counts an event that a watcher of the PodsAPI was not sent.
func (m *Metrics) PodEventDropped() { m.podsAPI.dropped.Inc() }
