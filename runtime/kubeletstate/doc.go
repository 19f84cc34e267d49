// Package kubeletstate reads and writes the state files of a kubelet: which CPUs, memory, devices and claims it has
// given to containers, and who may use the images that it has pulled. An agent that takes a kubelet's place reads some
// of them once (ADR 070), and a hand-back writes them (ADR 107). The files are input from outside: a bounded part of
// each is read, and a damaged file is reported and left out. Start with read.go; write.go is the way back.
package kubeletstate
