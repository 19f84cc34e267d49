package monitoring

import (
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/journalet/journalet/runtime/defect/collect"
)

// Metrics are the agent's metrics. All methods are cheap and safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	catalog  []Metric
	counts   atomic.Pointer[func() Counts]

	records, recordBytes prometheus.Counter
	appends, syncs       prometheus.Observer
	relist, interval     prometheus.Observer
	lastRelist           atomic.Int64
	operations, failures *prometheus.CounterVec
	durations            *prometheus.HistogramVec
	evictions            *prometheus.CounterVec
	pluginErrors         *prometheus.CounterVec
	pluginDurations      *prometheus.HistogramVec
	build, node          *prometheus.GaugeVec
	kubernetes           *prometheus.GaugeVec
	foldTook, folded     prometheus.Gauge
	probes               probeMetrics
	pods                 podMetrics
	traces               traceMetrics
	podResources         podResources
	podsAPI              podsAPIMetrics
}

// traceMetrics count exported traces of pods' starts.
type traceMetrics struct{ exported, dropped, failures prometheus.Counter }

// Buckets in seconds. Appends take between 0.02 ms without a sync and some 10 ms with one on a slow disk. The kubelet
// uses prometheus.DefBuckets for relists and an exponential series from 5 ms for operations.
var (
	appendBuckets    = []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 1, 5}
	operationBuckets = prometheus.ExponentialBuckets(.005, 2.5, 14)
)

// NewMetrics returns metrics with a registry of their own. What fails at a scrape is logged; nil: nowhere.
func NewMetrics(log *slog.Logger) *Metrics {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Metrics{registry: prometheus.NewRegistry(), log: log}
	m.newJournal()
	m.relist = m.histogram("kubelet_pleg_relist_duration_seconds", "Duration of a relist.", prometheus.DefBuckets)
	m.interval = m.histogram("kubelet_pleg_relist_interval_seconds", "Time between two relists.", prometheus.DefBuckets)
	const operation = "operation_type"
	m.operations = m.counters("kubelet_runtime_operations_total",
		"Calls to the container runtime by operation.", operation)
	m.failures = m.counters("kubelet_runtime_operations_errors_total",
		"Failed calls to the container runtime by operation.", operation)
	m.durations = m.histograms("kubelet_runtime_operations_duration_seconds",
		"Duration of calls to the container runtime by operation.", operationBuckets, operation)
	m.evictions = m.counters("kubelet_evictions", "Pods that were evicted, by the signal of what was short.",
		"eviction_signal")
	const plugin = "plugin_name"
	m.pluginErrors = m.counters("kubelet_credential_provider_plugin_errors_total",
		"Failed runs of credential provider plugins.", plugin)
	m.pluginDurations = m.histograms("kubelet_credential_provider_plugin_duration",
		"Duration of runs of credential provider plugins, in seconds.", prometheus.DefBuckets, plugin)
	m.build = m.gauges("journalet_build_info", "1, labelled with the version and the node.", "version", "node")
	m.kubernetes = m.gauges("kubernetes_build_info",
		"1, labelled with the version of Kubernetes that this node stands for: the kubeletVersion of the Node's status.",
		"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform")
	m.node = m.gauges("kubelet_node_name", "1, labelled with the node.", "node")
	m.probes = m.newProbes()
	m.pods = m.newPods()
	m.traces = traceMetrics{
		exported: m.counter("journalet_traces_exported_total", "Traces of pods' starts that were sent to the collector."),
		dropped: m.counter("journalet_traces_dropped_total",
			"Traces of pods' starts that were not sent, because the collector refused them or too many waited."),
		failures: m.counter("journalet_traces_export_errors_total", "Failed requests to the collector."),
	}
	m.podResources = m.newPodResources()
	m.podsAPI = m.newPodsAPI()
	m.newCounts()
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *Metrics) newJournal() {
	m.records = m.counter("journalet_journal_records_total", "Records stored in the journal by this run.")
	m.recordBytes = m.counter("journalet_journal_record_bytes_total", "Bytes of these records, as encoded.")
	m.appends = m.histogram("journalet_journal_append_seconds",
		"Time from handing over a record until it is stored.", appendBuckets)
	m.syncs = m.histogram("journalet_journal_sync_seconds",
		"Duration of a sync of the journal to disk. Records that are stored at once share one.", appendBuckets)
	m.foldTook = m.gauge("journalet_start_fold_seconds",
		"Time that the fold of snapshots and journal took at the start of this run.")
	m.folded = m.gauge("journalet_start_last_record", "Number of the last record when this run started.")
}

// Appended counts a stored record of so many bytes, and observes the time from handing it over until it is stored.
func (m *Metrics) Appended(took time.Duration, bytes int) {
	m.records.Inc()
	m.recordBytes.Add(float64(bytes))
	m.appends.Observe(took.Seconds())
}

// Synced observes the duration of a sync of the journal.
func (m *Metrics) Synced(took time.Duration) { m.syncs.Observe(took.Seconds()) }

// Folded sets what the fold at the start took, and the last record that it contains.
func (m *Metrics) Folded(took time.Duration, last uint64) {
	m.foldTook.Set(took.Seconds())
	m.folded.Set(float64(last))
}

// Relisted observes the duration of a relist, at its end.
func (m *Metrics) Relisted(took time.Duration) {
	m.relist.Observe(took.Seconds())
	now := time.Now().UnixNano()
	m.pods.lastRelist.Set(float64(now / int64(time.Second)))
	if before := m.lastRelist.Swap(now); before != 0 {
		m.interval.Observe(time.Duration(now - before).Seconds())
	}
}

// Operation counts one finished call to the runtime. operation is one of a fixed set with the kubelet's names
// (run_podsandbox, start_container, ...): each new value adds a time series for good.
func (m *Metrics) Operation(operation string, took time.Duration, err error) {
	m.operations.WithLabelValues(operation).Inc()
	m.durations.WithLabelValues(operation).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(operation).Inc()
	}
}

// CredentialPlugin counts one run of a credential provider plugin. plugin is a name from the configuration.
func (m *Metrics) CredentialPlugin(plugin string, took time.Duration, err error) {
	m.pluginDurations.WithLabelValues(plugin).Observe(took.Seconds())
	if err != nil {
		m.pluginErrors.WithLabelValues(plugin).Inc()
	}
}

// Evicted counts a pod that is evicted.
func (m *Metrics) Evicted(signal string) { m.evictions.WithLabelValues(signal).Inc() }

// TracesExported counts traces that a collector has taken.
func (m *Metrics) TracesExported(n int) { m.traces.exported.Add(float64(n)) }

// TracesDropped counts traces that are not sent any more.
func (m *Metrics) TracesDropped(n int) { m.traces.dropped.Add(float64(n)) }

// TraceExportFailed counts a failed request to the collector.
func (m *Metrics) TraceExportFailed() { m.traces.failures.Inc() }

// Build sets the version and the node of the build info.
func (m *Metrics) Build(version, node string) {
	m.build.WithLabelValues(version, node).Set(1)
	m.node.WithLabelValues(node).Set(1)
}

// Kubernetes sets the version of Kubernetes that this node stands for, such as v1.37.1+journalet.0.1.0. Of which commit
// it was built and when is not known, and empty.
func (m *Metrics) Kubernetes(version string) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	parts = append(parts, "", "")
	m.kubernetes.WithLabelValues(parts[0], parts[1], version, "", "", "", runtime.Version(), runtime.Compiler,
		runtime.GOOS+"/"+runtime.GOARCH).Set(1)
}

// MustRegister registers a collector whose metrics follow at each scrape from what the agent has read. Like a
// registry's, it panics if one has been registered that exports the same.
func (m *Metrics) MustRegister(c prometheus.Collector) {
	m.registry.MustRegister(collect.Guard(c, m.log))
}

// Handler serves all metrics.
func (m *Metrics) Handler() http.Handler { return m.handler() }

// ProbeHandler serves the metrics of probes alone.
func (m *Metrics) ProbeHandler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := m.registry.Gather()
		return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
			return !strings.HasPrefix(f.GetName(), "prober_") && f.GetName() != "process_start_time_seconds"
		}), err
	}), promhttp.HandlerOpts{Timeout: writeTimeout / 2, MaxRequestsInFlight: 4})
}

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: writeTimeout / 2, MaxRequestsInFlight: 4})
}
