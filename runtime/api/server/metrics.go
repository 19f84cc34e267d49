package server

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Counts are the gauges at the moment of a scrape.
type Counts struct {
	// Actors by kind, in lower case.
	Actors map[string]int
	// Lagging are mailboxes that were full and whose actors catch up from the journal.
	Lagging int
	// Quarantined are quarantined actors.
	Quarantined int
	// Unanswered are pods whose actors did not answer in time: RunningPods and Containers leave them out.
	Unanswered int
	// Queued are records that are not stored yet.
	Queued int
	// RunningPods have a ready sandbox; Containers are counted by state: created, running, exited, unknown.
	RunningPods int
	Containers  map[string]int
}

// Metrics are the agent's metrics. All methods are cheap and safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	counts   atomic.Pointer[func() Counts]

	records    prometheus.Counter
	appends    prometheus.Histogram
	relist     prometheus.Histogram
	interval   prometheus.Histogram
	lastRelist atomic.Int64
	operations *prometheus.CounterVec
	failures   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	build      *prometheus.GaugeVec
	probes     probeMetrics
}

// Buckets in seconds. Appends take between 0.02 ms without a sync and some 10 ms with one on a slow disk. The kubelet
// uses prometheus.DefBuckets for relists and an exponential series from 5 ms for operations.
var (
	appendBuckets    = []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 1, 5}
	operationBuckets = prometheus.ExponentialBuckets(.005, 2.5, 14)
)

// NewMetrics returns metrics with a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.records = prometheus.NewCounter(prometheus.CounterOpts{Name: "journalet_journal_records_total",
		Help: "Records stored in the journal by this run."})
	m.appends = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "journalet_journal_append_seconds", Help: "Time from handing over a record until it is stored.",
		Buckets: appendBuckets})
	m.relist = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kubelet_pleg_relist_duration_seconds", Help: "Duration of a relist.", Buckets: prometheus.DefBuckets})
	m.interval = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kubelet_pleg_relist_interval_seconds", Help: "Time between two relists.", Buckets: prometheus.DefBuckets})
	m.operations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_runtime_operations_total", Help: "Calls to the container runtime by operation."},
		[]string{"operation_type"})
	m.failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_runtime_operations_errors_total", Help: "Failed calls to the container runtime by operation."},
		[]string{"operation_type"})
	m.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kubelet_runtime_operations_duration_seconds", Help: "Duration of calls to the container runtime by operation.",
		Buckets: operationBuckets}, []string{"operation_type"})
	m.build = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "journalet_build_info",
		Help: "1, labelled with the version and the node."}, []string{"version", "node"})
	m.probes = newProbeMetrics()
	m.registry.MustRegister(m.probes.total, m.probes.durations, m.records, m.appends, m.relist, m.interval, m.operations,
		m.failures, m.durations, m.build,
		(*countCollector)(m), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Record counts a stored record.
func (m *Metrics) Record() { m.records.Inc() }

// Appended observes the time from handing over a record until it is stored.
func (m *Metrics) Appended(took time.Duration) { m.appends.Observe(took.Seconds()) }

// Relisted observes the duration of a relist, at its end.
func (m *Metrics) Relisted(took time.Duration) {
	m.relist.Observe(took.Seconds())
	now := time.Now().UnixNano()
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

// Build sets the version and the node of the build info.
func (m *Metrics) Build(version, node string) { m.build.WithLabelValues(version, node).Set(1) }

// Count sets the source of the gauges. f is called at each scrape and should return at once.
func (m *Metrics) Count(f func() Counts) { m.counts.Store(&f) }

// ObserversMissed sets the source of the count of records that observers were not sent. f is called at each scrape.
func (m *Metrics) ObserversMissed(f func() uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "journalet_observers_missed_records_total",
		Help: "Records that were not sent to connected observers, because they request more than their share."},
		func() float64 { return float64(f()) }))
}

// Registry returns the registry, for metrics of other packages.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: writeTimeout / 2, MaxRequestsInFlight: 4})
}

// countCollector turns Counts into metrics.
type countCollector Metrics

var (
	descActors  = prometheus.NewDesc("journalet_actors", "Running actors by kind.", []string{"kind"}, nil)
	descLagging = prometheus.NewDesc("journalet_mailbox_lagging",
		"Actors that read the journal to catch up after their mailbox was full.", nil, nil)
	descQuarantined = prometheus.NewDesc("journalet_actors_quarantined", "Quarantined actors.", nil, nil)
	descUnanswered  = prometheus.NewDesc("journalet_pods_unanswered",
		"Pods whose actors did not answer this scrape: kubelet_running_pods and _containers leave them out.", nil, nil)
	descQueued     = prometheus.NewDesc("journalet_journal_queued", "Records that are not stored yet.", nil, nil)
	descPods       = prometheus.NewDesc("kubelet_running_pods", "Pods with a ready sandbox.", nil, nil)
	descContainers = prometheus.NewDesc("kubelet_running_containers", "Containers by state.", []string{"container_state"},
		nil)
)

// Describe sends the descriptions of the metrics.
func (c *countCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descActors, descLagging, descQuarantined, descUnanswered, descQueued, descPods, descContainers,
	} {
		out <- d
	}
}

// Collect sends the current counts.
func (c *countCollector) Collect(out chan<- prometheus.Metric) {
	f := c.counts.Load()
	if f == nil {
		return
	}
	n := (*f)()
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	for kind, v := range n.Actors {
		gauge(descActors, v, kind)
	}
	for state, v := range n.Containers {
		gauge(descContainers, v, state)
	}
	gauge(descLagging, n.Lagging)
	gauge(descQuarantined, n.Quarantined)
	gauge(descUnanswered, n.Unanswered)
	gauge(descQueued, n.Queued)
	gauge(descPods, n.RunningPods)
}
