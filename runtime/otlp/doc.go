// Package otlp sends traces of pods' starts to an OpenTelemetry collector, by OTLP over gRPC. runtime/history/trace
// computes them from stored records (ADR 036).
//
// Nothing waits for it: the agent hands over a record and continues. What the exporter is too slow for it reads from
// the journal; what the collector is too slow for, or does not take, is dropped and counted. Start with exporter.go.
package otlp
