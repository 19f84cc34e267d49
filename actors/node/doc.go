// Package node decides who may run on this node, which source may use a UID, and when what no source names is cleared away.
//
// It receives AgentStarted (what the node has), AdmissionRequested, ResizeRequested, ResizeWithdrawn, PodTerminated (a pod's
// share is free), PodFinished (its name is free), UidRequested, UidWithdrawn, SourceSynced and OrphanFound, and decides AdmissionDecided, AdmissionDeferred, AdmissionPendingPreemption and ResizePendingPreemption (by which pods of lower
// priority end to make room), ResizeDecided, UidGranted, UidDeferred and OrphanConfirmed. An incarnation of a pod is
// admitted once: after a restart of the agent nobody is asked again. It does not look at what runs. Start with decide.go, then preempt.go.
package node
