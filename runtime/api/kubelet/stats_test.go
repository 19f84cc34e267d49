package kubelet

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// fakeStats has the method that answered as the node's name.
type fakeStats struct{}

func named(name string) *stats.Summary { return &stats.Summary{Node: stats.NodeStats{NodeName: name}} }

func (fakeStats) Summary(context.Context) *stats.Summary      { return named("all") }
func (fakeStats) CPUAndMemory(context.Context) *stats.Summary { return named("cpu and memory") }
func (fakeStats) Node(context.Context) *stats.Summary         { return named("node") }
func (fakeStats) Top(_ context.Context, wide bool) *stats.Summary {
	if wide {
		return named("wide")
	}
	return named("top")
}

func gauge(name string) prometheus.Collector {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "h"})
}

func (fakeStats) ResourceMetrics() prometheus.Collector { return gauge("resource") }
func (fakeStats) CadvisorMetrics() prometheus.Collector { return gauge("cadvisor") }
func (fakeStats) MachineMetrics() prometheus.Collector  { return gauge("machine") }

func TestStatsAreServedOnTheKubeletsPaths(t *testing.T) {
	h := New(Options{Stats: fakeStats{}})
	for _, c := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/stats/summary", 200, `"nodeName":"all"`},
		{"POST", "/stats/summary", 200, `"nodeName":"all"`},
		{"GET", "/stats/summary?only_cpu_and_memory=true", 200, `"nodeName":"cpu and memory"`},
		{"GET", "/stats/summary?only_cpu_and_memory=false", 200, `"nodeName":"all"`},
		{"GET", "/stats/summary?only_cpu_and_memory=true&only_cpu_and_memory=true", 200, `"nodeName":"all"`},
		{"GET", "/stats/summary?view=top", 200, `"nodeName":"top"`},
		{"GET", "/stats/summary?view=wide", 200, `"nodeName":"wide"`},
		{"GET", "/stats/summary?view=node", 200, `"nodeName":"node"`},
		{"GET", "/stats/summary?view=%1b[2J", 400, "want top, wide or node"},
		{"GET", "/metrics/resource", 200, "resource 0"},
		{"GET", "/metrics/cadvisor", 200, "cadvisor 0\n# HELP machine"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	New(Options{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics/cadvisor", nil))
	if w.Code != http.StatusNotImplemented {
		t.Errorf("without stats: %d", w.Code)
	}
}
