// Package topology reads what the kernel knows about the machine's CPUs and memory: cores, sockets, caches and NUMA
// nodes. It decides nothing: what is read goes into AgentStarted, if the configuration gives out CPUs or memory to
// containers alone (ADR 064). Start with topology.go.
package topology
