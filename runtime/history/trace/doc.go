// Package trace turns starts of pods into OpenTelemetry spans: a root span from the pod's addition until it was ready,
// and a child for each phase. The spans follow from the journal's records alone, so their times are the times of
// the records, and the ids come from node, pod and record: the same start is the same trace, whenever and however often
// it is exported (ADR 036).
//
// It is pure: starts in, spans out. Sending them is the work of runtime/otlp.
package trace
