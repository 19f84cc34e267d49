package collect

import (
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/journalet/journalet/runtime/defect"
)

// Guard returns a collector that leaves out the rest of its metrics if collecting them panics. Prometheus' library
// collects on goroutines of its own, where a panic would end the agent. The first panic is logged with its stack.
func Guard(c prometheus.Collector, log *slog.Logger) prometheus.Collector {
	return &guarded{Collector: c, log: log}
}

type guarded struct {
	prometheus.Collector
	log    *slog.Logger
	failed sync.Once
}

// Collect implements prometheus.Collector.
func (g *guarded) Collect(out chan<- prometheus.Metric) {
	defer defect.Recover(func(stack string) {
		g.failed.Do(func() {
			g.log.Error("some metrics are left out of each scrape", "error", defect.Message, "stack", stack)
		})
	})
	g.Collector.Collect(out)
}
