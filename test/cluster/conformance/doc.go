// Command conformance runs Kubernetes' own end-to-end tests of a node against this agent, or against the kubelet of the
// same release: the specs of sig-node and sig-storage, for nodes or for conformance, that a cluster of one node can
// pass, and the specs of CSI drivers. specs.tsv, storage.tsv and hostpath.tsv name them, with the seconds that kubelet
// 1.36.3, or 1.37.1, took for each spec, or - if the time is not known. It starts a control plane, serves the images,
// runs the specs in shards, and writes docs/CONFORMANCE.md, docs/STORAGE-SPECS.md or docs/HOSTPATH-SPECS.md. Start
// reading at run; specs.go selects and shards, run.go runs, page.go writes.
package main
