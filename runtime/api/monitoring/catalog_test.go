package monitoring

import (
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

var update = flag.Bool("metrics.update", false, "write the table of docs/METRICS.md again")

const (
	metricsDoc = "../../../docs/METRICS.md"
	tableBegin = "<!-- metrics: written by " +
		"`go test ./runtime/api/monitoring -run MetricsAreDocumented -metrics.update` -->"
	tableEnd = "<!-- end of metrics -->"
)

// TestMetricsAreDocumented holds the table of docs/METRICS.md to the catalog.
func TestMetricsAreDocumented(t *testing.T) {
	data, err := os.ReadFile(metricsDoc)
	must.OK(t, err)
	doc := string(data)
	before, rest, ok1 := strings.Cut(doc, tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no table between %q and %q", metricsDoc, tableBegin, tableEnd)
	}
	want := before + tableBegin + "\n\n" + metricsTable() + "\n" + tableEnd + after
	if *update {
		must.OK(t, os.WriteFile(metricsDoc, []byte(want), 0o600))
		return
	}
	if doc != want {
		t.Errorf("%s is not what the agent exports: run the test again with -metrics.update", metricsDoc)
	}
}

// allMetrics returns the catalog of a node of a cluster whose Node is ready.
func allMetrics() []Metric {
	m := NewMetrics(nil)
	c := m.Cluster()
	none := func() *tls.Certificate { return nil }
	c.ClientCertificate(none)
	c.ServingCertificate(none)
	c.Started(Startup{1, 1, 1, 1, 1})
	return m.Catalog()
}

func metricsTable() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, m := range allMetrics() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(m.Labels, ", "), m.Help)
	}
	return b.String()
}

var prefixed = regexp.MustCompile(
	`^(journalet|kubelet|kubernetes|prober|volume_manager|storage_operation|rest_client|apiserver_delegated)(_[a-z]+)+$`)

// TestMetricsFollowTheConventions holds names and units to the conventions of Prometheus.
func TestMetricsFollowTheConventions(t *testing.T) {
	names := map[string]bool{}
	for _, m := range allMetrics() {
		if names[m.Name] {
			t.Errorf("%s is there twice", m.Name)
		}
		names[m.Name] = true
		if !prefixed.MatchString(m.Name) {
			t.Errorf("%s has none of the agent's prefixes", m.Name)
		}
		// Dashboards have the kubelet's names.
		theirCount := strings.HasSuffix(m.Name, "_renew_errors") || m.Name == "kubelet_evictions" ||
			strings.HasPrefix(m.Name, "kubelet_pod_resources_endpoint_")
		if total := strings.HasSuffix(m.Name, "_total"); total != (m.Type == "counter") && !theirCount {
			t.Errorf("%s is a %s: only counters end in _total", m.Name, m.Type)
		}
		const theirs = "kubelet_credential_provider_plugin_duration" // dashboards have the kubelet's name, without a unit
		if m.Type == "histogram" && m.Name != theirs && !strings.HasSuffix(m.Name, "_seconds") {
			t.Errorf("%s does not name its unit", m.Name)
		}
		if !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: %q is no sentence", m.Name, m.Help)
		}
	}
}
