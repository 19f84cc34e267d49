// Command conformance runs Kubernetes' own end-to-end tests against this agent, or against the kubelet of the same
// release: on two nodes all specs that upstream labels for conformance, or for nodes, and on one node the specs of CSI
// drivers that storage.tsv and hostpath.tsv name. It starts a control plane, serves the images, runs the specs, and
// writes docs/CONFORMANCE.md and its siblings. kubelet.tsv has the seconds that a kubelet took for each spec, - where
// it is not known. Start reading at run; host.go starts what the specs need, specs.go selects, run.go runs, results.go
// keeps what became of the specs, page.go writes.
package main
