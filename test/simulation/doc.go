// Package simulation runs the agent in a world of faults, on virtual time, in one goroutine and from one number: the
// same seed gives the same journal, byte for byte. The deciders, the host's cells, fold, recovery and snapshots are the
// real ones, and so are nearly all drivers, which run on coroutines; journal, files and the container runtime are
// models (see ADR 012).
//
// A run is a plan that is made from its seed, carried out; what must never happen is judged at each record and each
// change of the world, and in the end, without faults, everything must come to what the files say. The package decides
// nothing for the agent and is only for tests. Start with run.go, then plan.go and judge.go; docs/SIMULATION.md says
// how to use it.
package simulation
