package stats

import (
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/journalet/journalet/test/must"
)

// exposition returns what a scrape of these collectors gets.
func exposition(t *testing.T, all ...prometheus.Collector) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	for _, c := range all {
		must.OK(t, r.Register(c))
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// changing are values of the machine that runs the test: its own file system, and times.
var changing = regexp.MustCompile(`(?m)^(container_fs_\w+\{[^}]*id="/",.*\}|container_last_seen\{.*\}) .*$`)

func TestMetricsHaveTheNamesAndLabelsOfDashboards(t *testing.T) {
	s := newStats(t, machine(t, "v2.txt"), true, &fakeRuntime{}, web("/kubepods/burstable/poduid-1"))
	text := changing.ReplaceAllString(exposition(t, s.CadvisorMetrics(), s.MachineMetrics()), "$1 V")
	text = regexp.MustCompile(`device="/[^"]*"`).ReplaceAllString(text, `device="D"`)
	golden(t, "cadvisor.txt", []byte(text))
	timed := regexp.MustCompile(`(?m) \d{13}$`).ReplaceAllString(exposition(t, s.ResourceMetrics()), " T")
	golden(t, "resource.txt", []byte(timed))
}

const (
	metricsDoc = "../../docs/METRICS.md"
	tableBegin = "<!-- metrics of pods: written by `go test ./runtime/stats -run MetricsAreDocumented -stats.update` -->"
	tableEnd   = "<!-- end of metrics of pods -->"
)

// TestMetricsAreDocumented holds the tables of docs/METRICS.md to the catalogs.
func TestMetricsAreDocumented(t *testing.T) {
	data, err := os.ReadFile(metricsDoc)
	must.OK(t, err)
	before, rest, ok1 := strings.Cut(string(data), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no table between %q and %q", metricsDoc, tableBegin, tableEnd)
	}
	var b strings.Builder
	for _, path := range []struct {
		name string
		all  []Metric
	}{{"/metrics/resource", ResourceCatalog()}, {"/metrics/cadvisor", CadvisorCatalog()}} {
		fmt.Fprintf(&b, "\n`%s`:\n\n| metric | type | labels | what it is |\n|---|---|---|---|\n", path.name)
		for _, m := range path.all {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(m.Labels, ", "), m.Help)
		}
	}
	want := before + tableBegin + "\n" + b.String() + "\n" + tableEnd + after
	if *update {
		must.OK(t, os.WriteFile(metricsDoc, []byte(want), 0o600))
		return
	}
	if string(data) != want {
		t.Errorf("%s is not what the agent exports: run the test again with -stats.update", metricsDoc)
	}
}
