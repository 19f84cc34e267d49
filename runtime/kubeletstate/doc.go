// Package kubeletstate reads the state files of a kubelet that had this root directory before (ADR 070): which CPUs,
// memory and devices it had given to containers. The files are input from outside: of each, a bounded part is read,
// once, and one that is damaged is reported and left out. Nothing is written. Start with read.go.
package kubeletstate
