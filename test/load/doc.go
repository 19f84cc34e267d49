// Package load floods the real agent and measures it with many pods.
//
// The agent runs as a child process (this test binary again, see TestMain), so that its memory is its own and a kill is
// a kill; the runtime is runtime/sim behind a unix socket in the test's process, so that pods outlive the agent. Tests
// hold what load must not change to named bounds: counts, bytes, queues. They assert no times; those are measured by
// the benchmarks and told in docs/PERFORMANCE.md. It is only for tests. Start with node_test.go.
package load
