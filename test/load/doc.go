// Package load floods the agent and measures it with many pods.
//
// The agent is a child process, so that its memory is its own and it can be
// killed. The runtime is runtime/sim behind a unix socket in the test's process, so that pods outlive the agent. Tests
// compare counts, bytes and queues with named bounds. They assert no times: the benchmarks measure those, for
// docs/PERFORMANCE.md. Only for tests. Start with node_test.go.
package load
