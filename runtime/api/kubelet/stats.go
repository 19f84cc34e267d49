package kubelet

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/runtime/defect/collect"
)

// Stats are the figures of the node, its pods and containers. None of them fails: what cannot be measured is left out.
type Stats interface {
	Summary(ctx context.Context) *stats.Summary
	CPUAndMemory(ctx context.Context) *stats.Summary
	// Top is what `journalet top` shows, with wide all of it.
	Top(ctx context.Context, wide bool) *stats.Summary
	// Node is what `journalet top node` shows.
	Node(ctx context.Context) *stats.Summary
	ResourceMetrics() prometheus.Collector
	CadvisorMetrics() prometheus.Collector
	MachineMetrics() prometheus.Collector
}

// Parameters of /stats/summary: the kubelet's, and the one of `journalet top`.
const (
	onlyCPUAndMemory = "only_cpu_and_memory"
	viewParameter    = "view"
	viewTop          = "top"
	viewWide         = "wide"
	viewNode         = "node"
)

const (
	summaryPath  = "/stats/summary"
	resourcePath = "/metrics/resource"
	cadvisorPath = "/metrics/cadvisor"
	// maxScrapes bounds the scrapes of one path at once. They share readings, not the encoding.
	maxScrapes = 4
	// scrapeTimeout bounds one scrape.
	scrapeTimeout = 15 * time.Second
)

func (s *Server) statsRoutes() {
	if s.Stats == nil {
		for _, path := range []string{summaryPath, resourcePath, cadvisorPath} {
			s.handle(http.MethodGet, path, absent(path[1:]))
		}
		return
	}
	s.get(summaryPath, s.summary)
	s.handle(http.MethodPost, summaryPath, prompt(http.HandlerFunc(s.summary)))
	s.get(resourcePath, s.metrics(s.Stats.ResourceMetrics()))
	s.get(cadvisorPath, s.metrics(s.Stats.CadvisorMetrics(), s.Stats.MachineMetrics()))
}

// summary serves the Summary API.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		fail(w, http.StatusInternalServerError, "Internal Error: parse form failed: "+err.Error())
		return
	}
	read := s.Stats.Summary
	view := r.Form.Get(viewParameter)
	switch {
	case view == viewTop, view == viewWide:
		read = func(ctx context.Context) *stats.Summary { return s.Stats.Top(ctx, view == viewWide) }
	case view == viewNode:
		read = s.Stats.Node
	case view != "":
		fail(w, http.StatusBadRequest, viewParameter+": want "+viewTop+", "+viewWide+" or "+viewNode)
		return
	case len(r.Form[onlyCPUAndMemory]) == 1 && r.Form.Get(onlyCPUAndMemory) == "true":
		view, read = onlyCPUAndMemory, s.Stats.CPUAndMemory
	}
	s.summaries[view].serve(w, r, func(ctx context.Context) (page, error) {
		data, err := json.Marshal(read(ctx))
		return page{data}, err
	})
}

// metrics serves collectors in the formats of Prometheus.
func (s *Server) metrics(all ...prometheus.Collector) http.HandlerFunc {
	registry := prometheus.NewRegistry()
	for _, c := range all {
		registry.MustRegister(collect.Guard(c, s.Log))
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout,
	}).ServeHTTP
}
