package monitoring

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRequestsToThePodsAPIAreCounted(t *testing.T) {
	m := NewMetrics(nil)
	m.PodsRequested("v1alpha1", "ListPods", "OK")
	m.PodsRequested("v1alpha1", "GetPod", "NotFound")
	m.PodsRequested("v1alpha1", "GetPod", "NotFound")
	m.PodsRequested("v1alpha1", "WatchPods", "Canceled")
	m.PodEventDropped()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`kubelet_pod_requests_total{server_api_version="v1alpha1",status_code="OK"} 1`,
		`kubelet_pod_requests_total{server_api_version="v1alpha1",status_code="NotFound"} 2`,
		`kubelet_pod_requests_list_total{server_api_version="v1alpha1",status_code="OK"} 1`,
		`kubelet_pod_requests_get_total{server_api_version="v1alpha1",status_code="NotFound"} 2`,
		`kubelet_pod_requests_watch_total{server_api_version="v1alpha1",status_code="Canceled"} 1`,
		`kubelet_pod_watch_events_dropped_total 1`,
	} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("no %s", line)
		}
	}
}
