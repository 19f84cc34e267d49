package stats

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric describes one metric of a collector, for documents.
type Metric struct {
	Name, Type, Help string
	Labels           []string
}

// metricsTimeout bounds one scrape.
const metricsTimeout = 10 * time.Second

// family is one metric, and how its values follow from what was measured.
type family[T any] struct {
	name, help string
	counter    bool
	// label is one more label, "" for none, and others are the labels behind it.
	label  string
	others []string
	// each calls emit with every value and its label values.
	each func(m T, emit func(value float64, labels ...string))
}

// one returns the values of a metric without a label of its own. ok false: it has none.
func one[T any](value func(m T) (float64, bool)) func(T, func(float64, ...string)) {
	return func(m T, emit func(float64, ...string)) {
		if v, ok := value(m); ok {
			emit(v)
		}
	}
}

// collector exports the families of what collect yields.
type collector[T any] struct {
	labels   []string
	families []family[T]
	descs    []*prometheus.Desc
	// failed is a gauge that is 1 if something failed; nothing that is measured here fails as a whole.
	failed  []*prometheus.Desc
	collect func(yield func(labels []string, at time.Time, m T))
}

func newCollector[T any](labels []string, families []family[T], failed ...string) *collector[T] {
	c := &collector[T]{labels: labels, families: families}
	for i := range families {
		c.descs = append(c.descs, prometheus.NewDesc(families[i].name, families[i].help, families[i].labels(labels), nil))
	}
	for _, name := range failed {
		c.failed = append(c.failed, prometheus.NewDesc(name, helpOfErrors, nil, nil))
	}
	return c
}

const helpOfErrors = "1 if the figures could not be read, 0 otherwise."

func (f *family[T]) labels(base []string) []string {
	all := append([]string{}, base...)
	if f.label != "" {
		all = append(all, f.label)
	}
	return append(all, f.others...)
}

// Describe implements prometheus.Collector.
func (c *collector[T]) Describe(out chan<- *prometheus.Desc) {
	for _, d := range append(append([]*prometheus.Desc{}, c.descs...), c.failed...) {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector[T]) Collect(out chan<- prometheus.Metric) {
	c.collect(func(labels []string, at time.Time, m T) {
		for i := range c.families {
			f := &c.families[i]
			kind := prometheus.GaugeValue
			if f.counter {
				kind = prometheus.CounterValue
			}
			f.each(m, func(value float64, more ...string) {
				values := labels
				if len(more) > 0 {
					values = append(append([]string{}, labels...), more...)
				}
				metric, err := prometheus.NewConstMetric(c.descs[i], kind, value, values...)
				if err != nil {
					return // a label that is not UTF-8
				}
				if !at.IsZero() {
					metric = prometheus.NewMetricWithTimestamp(at, metric)
				}
				out <- metric
			})
		}
	})
	for _, d := range c.failed {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, 0)
	}
}

func (c *collector[T]) catalog() []Metric {
	var out []Metric
	for i := range c.families {
		f := &c.families[i]
		kind := "gauge"
		if f.counter {
			kind = "counter"
		}
		out = append(out, Metric{f.name, kind, f.help, f.labels(c.labels)})
	}
	return out
}

// scrape returns the context of one scrape.
func scrape() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), metricsTimeout)
}

func seconds(nanos uint64) float64 { return float64(nanos) / float64(time.Second) }
