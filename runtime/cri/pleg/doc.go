// Package pleg (pod lifecycle event generator) reports what the container runtime shows of this agent's pods: one
// observation per pod, only if it differs from the last one. A slow relist finds every change; the runtime's event
// stream and hints only trigger earlier inspections of one pod. It may not act on the runtime, nor inspect objects of
// other agents. When idle, a relist costs two list calls, and no pod has a goroutine. Start reading at pleg.go (the
// loop and its queues), then inspect.go (one pod), merge.go (which state may follow which), stamps.go (the order of
// inspections and calls) and message.go (termination messages).
package pleg
