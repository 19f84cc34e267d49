package kubelet

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check is the result of one check of the agent's health.
type Check struct {
	Name string
	Err  error // nil: it passes
}

// health serves /healthz, and counts its results as the indicators of /metrics/slis.
type health struct {
	run      func() []Check
	registry *prometheus.Registry
	current  *prometheus.GaugeVec
	total    *prometheus.CounterVec
}

func newHealth(run func() []Check) *health {
	h := &health{run: run, registry: prometheus.NewRegistry()}
	h.current = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_healthcheck", Help: "Whether a check passed when it last ran.",
	}, []string{"name", "type"})
	h.total = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubernetes_healthchecks_total", Help: "Runs of checks by result.",
	}, []string{"name", "status", "type"})
	h.registry.MustRegister(h.current, h.total)
	return h
}

// results runs the checks. The first one is that the server answers.
func (h *health) results() []Check {
	all := append([]Check{{Name: "ping"}}, h.run()...)
	for _, c := range all {
		value, status := 1.0, "success"
		if c.Err != nil {
			value, status = 0, "error"
		}
		h.current.WithLabelValues(c.Name, "healthz").Set(value)
		h.total.WithLabelValues(c.Name, status, "healthz").Inc()
	}
	return all
}

// healthRoutes registers /healthz, the checks below it, and /metrics/slis.
func (s *Server) healthRoutes() {
	if s.Health == nil {
		s.get("/healthz", absent("healthz").ServeHTTP)
		s.get("/metrics/slis", absent("metrics/slis").ServeHTTP)
		return
	}
	h := newHealth(s.Health)
	s.get("/healthz", h.serve)
	s.get("/healthz/{check}", h.serveOne)
	s.get("/metrics/slis", promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{}).ServeHTTP)
}

// serve answers "ok" if all checks pass that are not excluded, else with each of them.
func (h *health) serve(w http.ResponseWriter, r *http.Request) {
	excluded := r.URL.Query()["exclude"]
	var b strings.Builder
	bad := false
	for _, c := range h.results() {
		i := slices.Index(excluded, name(c))
		switch {
		case i >= 0:
			excluded = slices.Delete(excluded, i, i+1)
			fmt.Fprintf(&b, "[+]%s excluded: ok\n", name(c))
		case c.Err != nil:
			bad = true
			fmt.Fprintf(&b, "[-]%s failed: %s\n", name(c), strings.Join(strings.Fields(c.Err.Error()), " "))
		default:
			fmt.Fprintf(&b, "[+]%s ok\n", name(c))
		}
	}
	for _, left := range excluded {
		fmt.Fprintf(&b, "warn: some health checks cannot be excluded: no matches for %q\n", left)
	}
	switch {
	case bad:
		http.Error(w, b.String()+"healthz check failed", http.StatusInternalServerError)
	case r.URL.Query().Has("verbose"):
		fail(w, http.StatusOK, b.String()+"healthz check passed\n")
	default:
		fail(w, http.StatusOK, "ok")
	}
}

// serveOne answers for one check. Of a kubelet's checks log always passes, since the agent buffers no log, and syncloop
// is the loops of the agent: all checks together.
func (h *health) serveOne(w http.ResponseWriter, r *http.Request) {
	wanted := r.PathValue("check")
	var errs []error
	found := wanted == "log" || wanted == "syncloop"
	for _, c := range h.results() {
		if name(c) == wanted || wanted == "syncloop" {
			found = true
			errs = append(errs, c.Err)
		}
	}
	err := errors.Join(errs...)
	switch {
	case !found:
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, "internal server error: "+err.Error(), http.StatusInternalServerError)
	default:
		fail(w, http.StatusOK, "ok")
	}
}

// name returns the name of a check as a path has it.
func name(c Check) string { return strings.ReplaceAll(c.Name, " ", "-") }
