// Package node is a node as a test sees it: the agent's own program in a process with folders of its own (agent.go,
// process.go), the container runtime as a CRI client sees it (runtime.go), and pods to give to the one and to find on the
// other (pods.go). The tests of test/integration and test/chaos share it; what they break, and what must hold then, is
// theirs. It holds no test, and nothing but tests may import it. Start reading at Agent.
package node
