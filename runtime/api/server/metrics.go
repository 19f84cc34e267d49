package server

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Counts is how many there are of things at the moment of a scrape.
type Counts struct {
	// Actors by kind, in lower case.
	Actors map[string]int
	// Lagging are mailboxes that were full and whose actors catch up from the journal.
	Lagging int
	// Quarantined are actors out of service.
	Quarantined int
	// Queued are records that wait to be stored.
	Queued int
	// RunningPods have a ready sandbox; Containers are counted by state: created, running, exited, unknown.
	RunningPods int
	Containers  map[string]int
}

// Metrics is what the agent counts. All methods are safe for concurrent use and cheap.
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

// Buckets in seconds. Appends lie between 0.02 ms without a sync and some 10 ms with one on a slow disk;
// the kubelet's operations and relists use prometheus.DefBuckets and an exponential row from 5 ms.
var (
	appendBuckets    = []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 1, 5}
	operationBuckets = prometheus.ExponentialBuckets(.005, 2.5, 14)
)

// NewMetrics makes the metrics with a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.records = prometheus.NewCounter(prometheus.CounterOpts{Name: "journalet_journal_records_total", Help: "Records stored in the journal by this run."})
	m.appends = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "journalet_journal_append_seconds", Help: "Time from a record's hand-over to its being stored.", Buckets: appendBuckets})
	m.relist = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kubelet_pleg_relist_duration_seconds", Help: "Time that a look at all pods of the runtime took.", Buckets: prometheus.DefBuckets})
	m.interval = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kubelet_pleg_relist_interval_seconds", Help: "Time between two looks at all pods of the runtime.", Buckets: prometheus.DefBuckets})
	m.operations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_runtime_operations_total", Help: "Calls of the container runtime by operation."}, []string{"operation_type"})
	m.failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_runtime_operations_errors_total", Help: "Failed calls of the container runtime by operation."}, []string{"operation_type"})
	m.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kubelet_runtime_operations_duration_seconds", Help: "Time that calls of the container runtime took, by operation.", Buckets: operationBuckets}, []string{"operation_type"})
	m.build = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "journalet_build_info", Help: "1, labelled with what runs."}, []string{"version", "node"})
	m.probes = newProbeMetrics()
	m.registry.MustRegister(m.probes.total, m.probes.durations, m.records, m.appends, m.relist, m.interval, m.operations, m.failures, m.durations, m.build,
		(*countCollector)(m), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Record counts a stored record.
func (m *Metrics) Record() { m.records.Inc() }

// Appended takes the time from a record's hand-over to its being stored.
func (m *Metrics) Appended(took time.Duration) { m.appends.Observe(took.Seconds()) }

// Relisted takes the time that a relist took, at its end.
func (m *Metrics) Relisted(took time.Duration) {
	m.relist.Observe(took.Seconds())
	now := time.Now().UnixNano()
	if before := m.lastRelist.Swap(now); before != 0 {
		m.interval.Observe(time.Duration(now - before).Seconds())
	}
}

// Operation takes one finished call of the runtime. operation is one of a fixed set, in the kubelet's
// words (run_podsandbox, start_container, ...): every new value is a new time series for good.
func (m *Metrics) Operation(operation string, took time.Duration, err error) {
	m.operations.WithLabelValues(operation).Inc()
	m.durations.WithLabelValues(operation).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(operation).Inc()
	}
}

// Build tells what runs.
func (m *Metrics) Build(version, node string) { m.build.WithLabelValues(version, node).Set(1) }

// Count sets what is asked at each scrape for what there is now. f should answer at once.
func (m *Metrics) Count(f func() Counts) { m.counts.Store(&f) }

// Registry is where others may register metrics of their own.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: writeTimeout / 2, MaxRequestsInFlight: 4})
}

// countCollector turns Counts into metrics.
type countCollector Metrics

var (
	descActors      = prometheus.NewDesc("journalet_actors", "Living actors by kind.", []string{"kind"}, nil)
	descLagging     = prometheus.NewDesc("journalet_mailbox_lagging", "Actors that catch up from the journal after their mailbox was full.", nil, nil)
	descQuarantined = prometheus.NewDesc("journalet_actors_quarantined", "Actors out of service.", nil, nil)
	descQueued      = prometheus.NewDesc("journalet_journal_queued", "Records that wait to be stored.", nil, nil)
	descPods        = prometheus.NewDesc("kubelet_running_pods", "Pods with a ready sandbox.", nil, nil)
	descContainers  = prometheus.NewDesc("kubelet_running_containers", "Containers by state.", []string{"container_state"}, nil)
)

// Describe names the metrics.
func (c *countCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descActors, descLagging, descQuarantined, descQueued, descPods, descContainers} {
		out <- d
	}
}

// Collect asks for the counts.
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
	gauge(descQueued, n.Queued)
	gauge(descPods, n.RunningPods)
}
