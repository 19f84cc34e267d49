// Package start folds records to the starts of pods: the phases of each, from the pod's addition until it was ready,
// with the records where they begin and end. A breakdown of a slow start, a timeline and a trace are drawn from it.
//
// It is pure: records in, starts out. It reads no manifest, so it knows only what the journal holds. Begin with
// Collector.
package start
