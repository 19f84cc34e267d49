package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/journalet/journalet/runtime/api/monitoring"
	"github.com/journalet/journalet/test/must"
)

const dashboardFile = "../../deploy/grafana/journalet.json"

// dashboard is what this test reads of Grafana's model.
type dashboard struct {
	SchemaVersion int    `json:"schemaVersion"`
	Title         string `json:"title"`
	UID           string `json:"uid"`
	Panels        []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ H, W, X, Y int }
		Targets []struct {
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
	Annotations struct {
		List []struct{ Expr, TitleFormat string }
	} `json:"annotations"`
	Templating struct {
		List []struct {
			Name, Type, Definition string
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) (d dashboard, text string) {
	t.Helper()
	data, err := os.ReadFile(dashboardFile)
	must.OK(t, err)
	must.OK(t, json.Unmarshal(data, &d))
	return d, string(data)
}

// TestDashboardLoads checks what Grafana needs to load a file: a version that it knows, ids that occur once, panels
// that lie side by side within its 24 columns, and variables that exist.
func TestDashboardLoads(t *testing.T) {
	d, text := readDashboard(t)
	if d.SchemaVersion < 36 || d.Title == "" || d.UID == "" || len(d.Panels) < 10 {
		t.Errorf("%q of schema version %d has %d panels", d.Title, d.SchemaVersion, len(d.Panels))
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %d %q: the id occurs twice, or the title is missing", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q overlaps %q, or is outside the grid", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q is a %s with %d queries", p.Title, p.Type, len(p.Targets))
		}
	}
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(text, -1) {
		known := slices.ContainsFunc(d.Templating.List, func(v struct{ Name, Type, Definition string }) bool {
			return v.Name == m[1]
		})
		if !known && m[1] != "__rate_interval" {
			t.Errorf("there is no variable %s", m[0])
		}
	}
}

// TestDashboardShowsWhatTheAgentExports parses every query as PromQL and compares metrics and labels with a scrape of
// the agent; what a young and healthy agent does not have yet, with its catalog.
func TestDashboardShowsWhatTheAgentExports(t *testing.T) {
	exported := scraped(t)
	d, _ := readDashboard(t)
	used := map[string]bool{}
	queries := 0
	check := func(where, expr string, legends ...string) {
		queries++
		for name, with := range metricsOf(t, where, expr) {
			labels, ok := exported[name]
			if !ok {
				t.Errorf("%s: the agent exports no %s", where, name)
				continue
			}
			used[name] = true
			for _, label := range with {
				if !slices.Contains(append(labels, "instance", "job", "le"), label) {
					t.Errorf("%s: %s has no label %s", where, name, label)
				}
			}
		}
		for _, legend := range legends {
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legend, -1) {
				if by := "by ("; strings.Contains(expr, by) && !regexp.MustCompile(`by \([^)]*\b`+m[1]+`\b`).MatchString(expr) {
					t.Errorf("%s: the legend shows %s, which the query drops", where, m[1])
				}
			}
		}
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr, target.LegendFormat)
		}
	}
	for _, a := range d.Annotations.List {
		check("annotation", a.Expr, a.TitleFormat)
	}
	if queries < 20 {
		t.Errorf("only %d queries", queries)
	}
	for _, m := range monitoring.NewMetrics(nil).Catalog() {
		if strings.HasPrefix(m.Name, "journalet_journal_") && !used[m.Name] {
			t.Errorf("no panel shows %s", m.Name)
		}
	}
}

// metricsOf returns the metrics of a query by name, without a histogram's suffixes, with the labels that it uses.
func metricsOf(t *testing.T, where, expr string) map[string][]string {
	t.Helper()
	expr = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(expr)
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %q is no PromQL: %v", where, expr, err)
		return nil
	}
	var grouping []string
	out := map[string][]string{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			grouping = append(grouping, n.Grouping...)
		case *parser.VectorSelector:
			name := n.Name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" {
					out[name] = append(out[name], m.Name)
				}
			}
			out[name] = append(out[name], grouping...)
		}
		return nil
	})
	return out
}

// scraped returns the metrics of an agent on the simulated runtime, and the metrics of its catalog, with their labels.
func scraped(t *testing.T) map[string][]string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	must.OK(t, l.Close())
	cfg := simulated(t)
	cfg.HealthzPort = int32(port)
	ctx, stop := context.WithCancel(t.Context())
	ended := runAgent(ctx, cfg)
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for end := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		page := get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
		if strings.Contains(page, "\n"+`kubelet_running_containers{container_state="running"} 1`) {
			return metricsIn(page)
		}
		if time.Now().After(end) {
			t.Fatalf("no container runs within a minute:\n%s", page)
		}
	}
}

func get(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// notYet are metrics that come with an event: a failed call, a probe, a snapshot.
var notYet = []string{"kubelet_runtime_operations_errors_total", "prober_probe_total", "prober_probe_duration_seconds",
	"journalet_snapshots_timestamp_seconds"}

func metricsIn(page string) map[string][]string {
	out := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) \S+$`).FindAllStringSubmatch(page, -1) {
		out[m[1]] = nil
	}
	for _, m := range monitoring.NewMetrics(nil).Catalog() {
		if _, there := out[m.Name]; there || slices.Contains(notYet, m.Name) {
			out[m.Name] = m.Labels
		}
	}
	return out
}
