// Package pressure turns samples of a node's resources into crossings of eviction thresholds, and ranks pods for their
// eviction (ADR 063). It is no actor: the driver of runtime/pressure and actors/node share it. It has no clock: a
// sample brings its time. Start with tracker.go, then rank.go.
package pressure
