package agent

import (
	"github.com/journalet/journalet/runtime/otlp"
)

// newTraces creates the exporter of traces, if starts are to be traced.
func (a *agent) newTraces() (err error) {
	if a.cfg.TracingSamplingRatePerMillion == 0 {
		return nil
	}
	a.traces, err = otlp.New(otlp.Options{
		Endpoint: a.cfg.TracingEndpoint, PerMillion: a.cfg.TracingSamplingRatePerMillion,
		Node: a.facts.NodeName, Version: Version, Journal: a.bus.Journal(), Last: a.bus.Opening().Last,
		Exported: a.metrics.TracesExported, Dropped: a.metrics.TracesDropped, Failed: a.metrics.TraceExportFailed,
		Log: a.log,
	})
	return err
}
