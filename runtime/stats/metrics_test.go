package stats

import (
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// Only v1 distinguishes a cgroup from the cgroups below it. What its kernel does not have is missing.
func TestFaultsOfV1HaveTwoScopes(t *testing.T) {
	text := exposition(t, newStats(t, machine(t, "v1.txt"), false, &fakeRuntime{}, web("")).CadvisorMetrics())
	for pattern, want := range map[string]bool{
		`container_memory_failures_total\{container="app",failure_type="pgfault",.*scope="container"\} 1`:        true,
		`container_memory_failures_total\{container="app",failure_type="pgfault",.*scope="hierarchy"\} 500`:      true,
		`container_memory_failures_total\{container="app",failure_type="pgmajfault",.*scope="hierarchy"\} 5`:     true,
		`container_memory_file_dirty_bytes\{container="app",.*\} 12288`:                                          true,
		`container_(memory_(pgscan|pgsteal|events_high|events_max|workingset_refault_file)_total|fs_io_cost_).*`: false,
	} {
		if got := regexp.MustCompile(`(?m)^(` + pattern + `)$`).MatchString(text); got != want {
			t.Errorf("%s is there: %v, want %v:\n%s", pattern, got, want, text)
		}
	}
}

// claiming is a pod with volumes by name, each of a claim of that name.
func claiming(namespace, name string, claims ...string) Pod {
	p := Pod{Manifest: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + name),
	}}}
	for _, c := range claims {
		p.Manifest.Spec.Volumes = append(p.Manifest.Spec.Volumes, corev1.Volume{
			Name: c, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c},
			}})
	}
	return p
}

// Each claim has one series, also if two pods have it, or if the first pod's volume cannot be measured.
func TestVolumesOfClaimsAreExportedOnce(t *testing.T) {
	first, second := claiming("a", "one", "data", "hangs"), claiming("a", "two", "data")
	first.Manifest.Spec.Volumes = append(first.Manifest.Spec.Volumes,
		web("").Manifest.Spec.Volumes[0], // without a claim
		corev1.Volume{Name: "cache", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
	third := claiming("b", "one", "data")
	third.Manifest.Spec.Volumes = append(claiming("b", "x", "hangs").Manifest.Spec.Volumes, third.Manifest.Spec.Volumes...)
	third.Manifest.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "data"
	s := newStats(t, t.TempDir(), true, &fakeRuntime{}, third, second, first)
	s.maxWait = MaxWait
	var series string
	for end := time.Now().Add(time.Minute); ; {
		text := exposition(t, s.VolumeMetrics())
		series = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, "")
		if strings.Count(series, "\n") == 18 || time.Now().After(end) {
			break // all but what hangs
		}
	}
	var want strings.Builder
	for _, m := range []string{
		"available_bytes V 5.36870912e+08", "capacity_bytes V 1.073741824e+09", "inodes V 1000", "inodes_free V 900",
		"inodes_used V 2", "used_bytes V 4096",
	} {
		for _, claim := range [][2]string{{"a", "data"}, {"a", "one-cache"}, {"b", "data"}} {
			want.WriteString("kubelet_volume_stats_" + strings.Replace(m, " V",
				fmt.Sprintf(`{namespace="%s",persistentvolumeclaim="%s"}`, claim[0], claim[1]), 1) + "\n")
		}
	}
	if series != want.String() {
		t.Errorf("exported:\n%swant:\n%s", series, want.String())
	}
}

// Without claims a scrape measures nothing, nor with a negative volumeStatsAggPeriod; and pods that have ended leave
// nothing.
func TestVolumesWithoutAClaimAreNotMeasuredForMetrics(t *testing.T) {
	s := newStats(t, t.TempDir(), true, &fakeRuntime{}, web(""))
	if text := exposition(t, s.VolumeMetrics()); text != "" || len(s.disks.volumes) != 0 {
		t.Errorf("%d measurements, exported: %s", len(s.disks.volumes), text)
	}
	pods := []Pod{claiming("a", "one", "data")}
	s.opts.Pods = func() []Pod { return pods }
	if text := exposition(t, s.VolumeMetrics()); text == "" || len(s.disks.volumes) != 1 {
		t.Errorf("%d measurements, exported: %s", len(s.disks.volumes), text)
	}
	s.opts.VolumePeriod = -1
	if text := exposition(t, s.VolumeMetrics()); text != "" {
		t.Errorf("volumeStatsAggPeriod: -1: %s", text)
	}
	s.opts.VolumePeriod, pods = VolumePeriod, nil
	if text := exposition(t, s.VolumeMetrics()); text != "" || len(s.disks.volumes) != 0 {
		t.Errorf("after the pod's end: %d measurements, exported: %s", len(s.disks.volumes), text)
	}
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
	}{
		{"/metrics", VolumeCatalog()}, {"/metrics/resource", ResourceCatalog()}, {"/metrics/cadvisor", CadvisorCatalog()},
	} {
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
