// Package pleg (pod lifecycle event generator) tells what the container runtime shows of this agent's pods, one
// observation a pod, only when it differs from the one before. A slow relist is the truth; the runtime's event stream and the
// host's hints only make it look at one pod sooner. It may not act on the runtime, nor look at what this agent did not
// make. At idle it costs two list calls a relist and holds no goroutine per pod. Start reading at pleg.go (the loop and
// its queue), then look.go (one pod), merge.go (what may follow what), stamps.go (what came before what) and message.go
// (termination messages).
package pleg
