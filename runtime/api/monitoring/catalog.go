package monitoring

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric describes one metric.
type Metric struct {
	Name string
	// Type is counter, gauge or histogram.
	Type string
	Help string
	// Labels are bounded sets of values, except for a pod's labels, which go with the pod.
	Labels []string
}

// Catalog returns the agent's own metrics by name: all but the metrics of the Go runtime and of the process.
func (m *Metrics) Catalog() []Metric {
	out := slices.Clone(m.catalog)
	slices.SortFunc(out, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// The constructors below register a metric and enter it into the catalog.

func (m *Metrics) enter(kind, name, help string, labels []string) {
	m.catalog = append(m.catalog, Metric{Name: name, Type: kind, Help: help, Labels: labels})
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.enter("counter", name, help, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	return m.counters(name, help).WithLabelValues()
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.enter("gauge", name, help, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	return m.gauges(name, help).WithLabelValues()
}

// gaugeFunc registers a gauge whose value f returns at each scrape.
func (m *Metrics) gaugeFunc(name, help string, f func() float64) {
	m.enter("gauge", name, help, nil)
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.enter("histogram", name, help, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Observer {
	return m.histograms(name, help, buckets).WithLabelValues()
}
