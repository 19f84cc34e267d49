// Package node decides which pods may run on this node, which source may use a UID, and when orphans are
// garbage-collected.
//
// It receives AgentStarted (what is allocatable), AdmissionRequested, ResizeRequested, ResizeWithdrawn, PodTerminated
// (a pod's share is free), PodFinished (its name is free), UidRequested, UidWithdrawn, SourceSynced, OrphanFound,
// DrainRequested, UncordonRequested, ShutdownSignaled, NodeObserved, and TimerFired of its own.
// It decides AdmissionDecided, AdmissionDeferred, ResizeDecided, AdmissionPendingPreemption and
// ResizePendingPreemption (they terminate pods of lower priority), UidGranted, UidDeferred, OrphanConfirmed,
// PodEvictionDecided, PodReadmitted and DrainProgressed.
//
// An incarnation of a pod is admitted once: a restart of the agent requests no admission again. This package does not
// know what runs. Start with decide.go, then preempt.go and drain.go.
package node
