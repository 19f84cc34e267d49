// Package exclusive works out which CPUs and which NUMA nodes' memory containers get that no other container has: the
// static policies of the kubelet's CPU and memory managers, and how its topology manager brings them together. It is
// not an actor and keeps no state: the node's decider calls it when it admits a pod, with what the pods have that it
// has admitted before (ADR 064). The same input has the same result, so a recorded decision can be taken again. Start
// with admit.go.
package exclusive
