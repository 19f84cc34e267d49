package monitoring

import (
	"crypto/tls"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ClusterMetrics are the metrics of a node of a cluster, with the names of the kubelet and of Kubernetes' libraries.
// All methods are cheap and safe for concurrent use.
type ClusterMetrics struct {
	m                 *Metrics
	requests          *prometheus.CounterVec
	durations, limits *prometheus.HistogramVec
	authn, authz      delegated
	leftOut           *prometheus.CounterVec
	served            *prometheus.CounterVec
	serving           *prometheus.GaugeVec
	took              *prometheus.HistogramVec
	clientRenewals    prometheus.Counter
	serverRenewals    prometheus.Counter
	serverAges        prometheus.Observer
	statuses          prometheus.Observer
	// startup has the parts of the node's start, each from its first value on.
	startup map[string]prometheus.Gauge
}

// delegated are reviews that the API server answers.
type delegated struct {
	total     *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// Buckets in seconds: the buckets of client-go, of the delegated reviews, and of the kubelet's statuses and rotations.
var (
	restBuckets   = []float64{.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60}
	reviewBuckets = []float64{.25, .5, .7, 1, 1.5, 3, 5, 10}
	statusBuckets = []float64{.01, .05, .1, .5, 1, 5, 10, 20, 30, 45, 60}
	ageBuckets    = []float64{60, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000}
)

// Cluster adds the metrics of a node of a cluster. Without it they do not exist.
func (m *Metrics) Cluster() *ClusterMetrics {
	const verb, host, code = "verb", "host", "code"
	c := &ClusterMetrics{m: m, startup: map[string]prometheus.Gauge{}}
	c.requests = m.counters("rest_client_requests_total",
		"Requests to the API server by status code, method and host; the code is <error> without a response.",
		code, "method", host)
	c.durations = m.histograms("rest_client_request_duration_seconds",
		"Time until the API server's response, without watches.", restBuckets, verb, host)
	c.limits = m.histograms("rest_client_rate_limiter_duration_seconds",
		"Time for which requests to the API server waited for kubeAPIQPS or eventRecordQPS.", restBuckets, verb, host)
	c.leftOut = m.counters("journalet_api_objects_left_out_total",
		"Objects of the API server that are left out of a list or watch: they are beyond a bound, or cannot be decoded.",
		"resource")
	c.authn = m.delegated("TokenReviews", "apiserver_delegated_authn_request_total",
		"apiserver_delegated_authn_request_duration_seconds")
	c.authz = m.delegated("SubjectAccessReviews", "apiserver_delegated_authz_request_total",
		"apiserver_delegated_authz_request_duration_seconds")
	labels := []string{"method", "path", "server_type", "long_running"}
	c.served = m.counters("kubelet_http_requests_total", "Requests to the ports of the server.", labels...)
	c.serving = m.gauges("kubelet_http_inflight_requests", "Requests to the ports of the server that are being served.",
		labels...)
	c.took = m.histograms("kubelet_http_requests_duration_seconds", "Duration of requests to the ports of the server.",
		prometheus.DefBuckets, labels...)
	c.clientRenewals = m.counter("kubelet_certificate_manager_client_expiration_renew_errors",
		"Failed requests for a client certificate.")
	c.serverRenewals = m.counter("kubelet_server_expiration_renew_errors", "Failed requests for a serving certificate.")
	c.serverAges = m.histogram("kubelet_certificate_manager_server_rotation_seconds",
		"Age of serving certificates at their replacement.", ageBuckets)
	c.statuses = m.histogram("kubelet_pod_status_sync_duration_seconds",
		"Time from the first change of a pod's status that the API server does not have until it has the status.",
		statusBuckets)
	return c
}

func (m *Metrics) delegated(what, total, duration string) delegated {
	return delegated{
		total:     m.counters(total, what+" that were sent to the API server, by status code.", "code"),
		durations: m.histograms(duration, "Time until the API server's response to "+what+".", reviewBuckets, "code"),
	}
}

// StatusSynced observes the time from a change of a pod until the API server has its status.
func (c *ClusterMetrics) StatusSynced(took time.Duration) { c.statuses.Observe(max(0, took).Seconds()) }

// noResponse is the code of a request that had no response.
const noResponse = "<error>"

// Requested counts one request to the API server. code 0: there was no response.
func (c *ClusterMetrics) Requested(method, host string, code int, took time.Duration, watch bool) {
	c.requests.WithLabelValues(codeLabel(code), method, host).Inc()
	if !watch {
		c.durations.WithLabelValues(method, host).Observe(took.Seconds())
	}
}

// LeftOut counts an object that is left out of a list or watch.
func (c *ClusterMetrics) LeftOut(resource string) { c.leftOut.WithLabelValues(resource).Inc() }

// Limited observes how long a request waited for its turn.
func (c *ClusterMetrics) Limited(verb, host string, took time.Duration) {
	c.limits.WithLabelValues(verb, host).Observe(took.Seconds())
}

func codeLabel(code int) string {
	if code == 0 {
		return noResponse
	}
	return strconv.Itoa(code)
}

// TokenReviewed counts a TokenReview with the error of its request, AccessReviewed a SubjectAccessReview.
func (c *ClusterMetrics) TokenReviewed(took time.Duration, err error) { c.authn.count(took, err) }

// AccessReviewed counts a SubjectAccessReview with the error of its request.
func (c *ClusterMetrics) AccessReviewed(took time.Duration, err error) { c.authz.count(took, err) }

func (d delegated) count(took time.Duration, err error) {
	code := http.StatusCreated
	if err != nil {
		var status apierrors.APIStatus
		if code = 0; errors.As(err, &status) {
			code = int(status.Status().Code)
		}
	}
	d.total.WithLabelValues(codeLabel(code)).Inc()
	d.durations.WithLabelValues(codeLabel(code)).Observe(took.Seconds())
}

// Values of labels are bounded by these lists; all else is other, as in the kubelet.
var (
	knownMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
	knownPaths   = []string{
		"attach", "checkpoint", "configz", "containerLogs", "debug", "exec", "flagz", "healthz", "livez", "logs", "metrics",
		"metrics/cadvisor", "metrics/probes", "metrics/resource", "metrics/slis", "pods", "portForward", "readyz", "run",
		"runningpods", "stats", "statusz",
	}
	longRunning = []string{"attach", "debug", "exec", "portForward"}
)

func among(v string, known []string) string {
	if slices.Contains(known, v) {
		return v
	}
	return "other"
}

// Observe counts the requests that a port serves. kind is readwrite or readonly.
func (c *ClusterMetrics) Observe(kind string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
		path := parts[0]
		if path == "metrics" && len(parts) > 1 {
			path += "/" + parts[1]
		}
		path = among(path, knownPaths)
		labels := []string{
			among(r.Method, knownMethods), path, kind, strconv.FormatBool(slices.Contains(longRunning, path)),
		}
		c.served.WithLabelValues(labels...).Inc()
		now := c.serving.WithLabelValues(labels...)
		now.Inc()
		begun := time.Now()
		defer func() {
			now.Dec()
			c.took.WithLabelValues(labels...).Observe(time.Since(begun).Seconds())
		}()
		next.ServeHTTP(w, r)
	})
}

// ClientCertificate exports how long the client certificate is valid, and returns what counts failed renewals. current
// returns the certificate, nil for none.
func (c *ClusterMetrics) ClientCertificate(current func() *tls.Certificate) (failed func()) {
	c.lifetime("client", "kubelet_certificate_manager_client_ttl_seconds", current)
	return c.clientRenewals.Inc
}

// ServingCertificate exports how long the serving certificate is valid, and returns what counts failed renewals and
// observes the age of a certificate that was replaced.
func (c *ClusterMetrics) ServingCertificate(current func() *tls.Certificate) (
	failed func(), rotated func(time.Duration),
) {
	c.lifetime("serving", "kubelet_certificate_manager_server_ttl_seconds", current)
	return c.serverRenewals.Inc, func(age time.Duration) { c.serverAges.Observe(age.Seconds()) }
}

func (c *ClusterMetrics) lifetime(kind, name string, current func() *tls.Certificate) {
	c.m.gaugeFunc(name,
		"Time until the end of the "+kind+" certificate, negative afterwards. +Inf without one.", func() float64 {
			if now := current(); now != nil && now.Leaf != nil {
				return math.Trunc(time.Until(now.Leaf.NotAfter).Seconds())
			}
			return math.Inf(1)
		})
}

// Startup are the parts of the start of a node that was registered for the first time. 0: unknown, or not over.
type Startup struct {
	// BeforeAgent is from the boot to the agent's start, then each part begins where the one before ends. Total is from
	// the boot to the ready Node.
	BeforeAgent, BeforeRegistration, Registration, AfterRegistration, Total time.Duration
}

// Started sets the parts of the node's start. It is called by one goroutine.
func (c *ClusterMetrics) Started(s Startup) {
	for _, p := range []struct {
		name, help string
		took       time.Duration
	}{
		{"kubelet_node_startup_pre_kubelet_duration_seconds", "Time from the boot to the agent's start.", s.BeforeAgent},
		{"kubelet_node_startup_pre_registration_duration_seconds",
			"Time from the agent's start to the first request to create the Node.", s.BeforeRegistration},
		{"kubelet_node_startup_registration_duration_seconds",
			"Time from the first request to create the Node until it was created.", s.Registration},
		{"kubelet_node_startup_post_registration_duration_seconds",
			"Time from the creation of the Node until it was ready.", s.AfterRegistration},
		{"kubelet_node_startup_duration_seconds", "Time from the boot until the Node was ready.", s.Total},
	} {
		if p.took <= 0 {
			continue
		}
		if c.startup[p.name] == nil {
			c.startup[p.name] = c.m.gauge(p.name, p.help)
		}
		c.startup[p.name].Set(p.took.Seconds())
	}
}
