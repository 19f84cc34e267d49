// Package exclusive chooses the exclusive CPUs and the NUMA nodes' memory of containers: the static policies of the
// kubelet's CPU and memory managers, and the topology manager that brings them together. It is no actor and keeps no
// state: the node's decider calls it when it admits a pod, with the CPUs and memory of the pods that it admitted before
// (ADR 064). The same input has the same result, so a recorded decision can be taken again. Start with admit.go.
package exclusive
