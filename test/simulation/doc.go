// Package simulation runs the agent in a world of faults, on virtual time, in one goroutine. One number, the seed,
// decides everything: the same seed gives the same journal, byte for byte. The deciders, the cells of runtime/host
// with fold, recovery and snapshots, and nearly all drivers are the real ones; the drivers run on coroutines.
// Journal, manifest files and the container runtime are models (ADR 012).
//
// A run carries out a plan that follows from its seed. The judge checks invariants at each record and each change of
// the world. In the end, without faults, every pod must become as its manifest says. The package decides nothing for
// the agent and is only for tests. Start with run.go, then plan.go and judge.go; docs/SIMULATION.md says how to use
// it.
package simulation
