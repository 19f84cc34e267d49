// Package node is a node as a test sees it: the agent's program in a process with directories of its own (agent.go,
// process.go, cgroups.go), the container runtime as a CRI client sees it (runtime.go), and pods for both (pods.go). The
// tests of test/integration, test/chaos, test/upgrade and test/vm share it. It holds no test, and nothing but tests may
// import it. A control plane for such a node is in test/cluster. Start reading at Agent.
package node
