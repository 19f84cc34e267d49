package collect

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/journalet/journalet/test/must"
)

type fails struct{ prometheus.Collector }

func (fails) Collect(chan<- prometheus.Metric) { panic("s3cret") }

// A collector that panics costs its own metric alone, at each scrape, and is logged once, without the panic's value.
func TestAPanicCostsOneMetric(t *testing.T) {
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	must.OK(t, registry.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "sound"})))
	broken := fails{prometheus.NewGauge(prometheus.GaugeOpts{Name: "broken"})}
	must.OK(t, registry.Register(Guard(broken, slog.New(slog.NewTextHandler(&log, nil)))))
	for range 2 {
		all, err := registry.Gather()
		must.OK(t, err)
		if len(all) != 1 || all[0].GetName() != "sound" {
			t.Errorf("gathered %v", all)
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "fails.Collect") ||
		strings.Contains(text, "s3cret") {
		t.Errorf("logged %s", text)
	}
}
