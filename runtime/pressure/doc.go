// Package pressure watches what is left of the node's resources and records when thresholds of eviction are crossed,
// and what the pods use then (ADR 063). It decides nothing: actors/pressure says what a crossing is, actors/node what
// follows. Without a crossing it records nothing. Start with driver.go.
package pressure
