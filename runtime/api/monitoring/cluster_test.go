package monitoring

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMetricsOfAClusterHaveTheKubeletsNamesAndBoundedLabels(t *testing.T) {
	m := NewMetrics(nil)
	for _, name := range []string{"rest_client", "apiserver_delegated", "kubelet_http", "certificate_manager"} {
		if strings.Contains(scrape(t, m), name) {
			t.Errorf("%s is exported without a cluster", name)
		}
	}
	c := m.Cluster()
	c.Requested("GET", "api:6443", 200, time.Second, false)
	c.Requested("GET", "api:6443", 200, time.Hour, true) // a watch
	c.Requested("PATCH", "api:6443", 0, time.Second, false)
	c.Limited("PATCH", "api:6443", 2*time.Second)
	c.TokenReviewed(time.Millisecond, nil)
	c.AccessReviewed(time.Millisecond, apierrors.NewForbidden(schema.GroupResource{}, "x", nil))
	c.AccessReviewed(time.Millisecond, errors.New("connection refused"))
	failed := c.ClientCertificate(func() *tls.Certificate {
		return &tls.Certificate{Leaf: &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}}
	})
	failed()
	_, rotated := c.ServingCertificate(func() *tls.Certificate { return nil })
	rotated(2 * time.Minute)
	c.StatusSynced(250 * time.Millisecond)
	c.Started(Startup{Registration: 250 * time.Millisecond})
	served := c.Observe("readwrite", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/exec/ns/pod/c" {
			const now = `kubelet_http_inflight_requests{long_running="true",method="POST",path="exec",` +
				`server_type="readwrite"} 1`
			if !strings.Contains(scrape(t, m), now) {
				t.Error("a request that is being served is not counted")
			}
		}
	}))
	for _, one := range []string{"POST /exec/ns/pod/c", "GET /metrics/cadvisor", "BREW /canary/x", "GET /"} {
		method, path, _ := strings.Cut(one, " ")
		served.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, nil))
	}
	got := scrape(t, m)
	for _, want := range []string{
		`rest_client_requests_total{code="200",host="api:6443",method="GET"} 2`,
		`rest_client_requests_total{code="<error>",host="api:6443",method="PATCH"} 1`,
		`rest_client_request_duration_seconds_count{host="api:6443",verb="GET"} 1`,
		`rest_client_rate_limiter_duration_seconds_sum{host="api:6443",verb="PATCH"} 2`,
		`apiserver_delegated_authn_request_total{code="201"} 1`, `apiserver_delegated_authz_request_total{code="403"} 1`,
		`apiserver_delegated_authz_request_duration_seconds_count{code="<error>"} 1`,
		`kubelet_certificate_manager_client_expiration_renew_errors 1`, `kubelet_server_expiration_renew_errors 0`,
		`kubelet_certificate_manager_client_ttl_seconds 3599`, `kubelet_certificate_manager_server_ttl_seconds +Inf`,
		`kubelet_certificate_manager_server_rotation_seconds_sum 120`,
		`kubelet_node_startup_registration_duration_seconds 0.25`,
		`kubelet_pod_status_sync_duration_seconds_sum 0.25`,
		`kubelet_http_requests_total{long_running="true",method="POST",path="exec",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="false",method="GET",path="metrics/cadvisor",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="false",method="other",path="other",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="false",method="GET",path="other",server_type="readwrite"} 1`,
		`kubelet_http_inflight_requests{long_running="true",method="POST",path="exec",server_type="readwrite"} 0`,
		`kubelet_http_requests_duration_seconds_count{long_running="true",method="POST",path="exec",` +
			`server_type="readwrite"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(got, "canary") || strings.Contains(got, "BREW") {
		t.Error("a client chooses the values of labels")
	}
	if strings.Contains(got, "node_startup_duration") {
		t.Error("a start that is not over is exported")
	}
}
