// Command conformance runs Kubernetes' own end-to-end tests of a node against this agent, or against the kubelet of
// the same release: the specs of sig-node and sig-storage, for nodes or for conformance, that a cluster of one node can
// pass. specs.tsv names them, with the seconds that kubelet 1.36.3 took for each, - where none is known. It starts a
// control plane, serves the images, runs the specs in shards, and writes docs/CONFORMANCE.md.
// Start reading at run; specs.go selects and shards, run.go runs, page.go writes.
package main
