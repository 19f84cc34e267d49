// Package kubeletstate reads the state files of a kubelet that had this root directory before (ADR 070): which CPUs,
// memory and devices it had given to containers. The files are input from outside: a bounded part of each file is read
// once, and a damaged file is reported and left out. Nothing is written. Start with read.go.
package kubeletstate
