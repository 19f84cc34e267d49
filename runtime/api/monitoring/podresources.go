package monitoring

import "github.com/prometheus/client_golang/prometheus"

// podResources count the requests of monitors of devices.
type podResources struct {
	all *prometheus.CounterVec
	// requests and failures are by the method of the API.
	requests, failures map[string]*prometheus.CounterVec
}

// newPodResources creates the kubelet's metrics of the API PodResources (pkg/kubelet/metrics).
func (m *Metrics) newPodResources() podResources {
	const version = "server_api_version"
	p := podResources{
		all: m.counters("kubelet_pod_resources_endpoint_requests_total",
			"Requests to the API PodResources by its version.", version),
		requests: map[string]*prometheus.CounterVec{}, failures: map[string]*prometheus.CounterVec{},
	}
	for _, rpc := range []struct{ method, requests, failures string }{
		{"List", "kubelet_pod_resources_endpoint_requests_list", "kubelet_pod_resources_endpoint_errors_list"},
		{"Get", "kubelet_pod_resources_endpoint_requests_get", "kubelet_pod_resources_endpoint_errors_get"},
		{"GetAllocatableResources", "kubelet_pod_resources_endpoint_requests_get_allocatable",
			"kubelet_pod_resources_endpoint_errors_get_allocatable"},
	} {
		p.requests[rpc.method] = m.counters(rpc.requests,
			"Requests of "+rpc.method+" to the API PodResources by its version.", version)
		p.failures[rpc.method] = m.counters(rpc.failures,
			"Requests of "+rpc.method+" to the API PodResources that failed, by its version.", version)
	}
	return p
}

// PodResources counts a request to the API PodResources, by its version and its method.
func (m *Metrics) PodResources(version, method string, err error) {
	m.podResources.all.WithLabelValues(version).Inc()
	if counter := m.podResources.requests[method]; counter != nil {
		counter.WithLabelValues(version).Inc()
		if err != nil {
			m.podResources.failures[method].WithLabelValues(version).Inc()
		}
	}
}
