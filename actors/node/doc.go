// Package node decides which pods may run on this node, which source may use a UID, when orphans are garbage-collected,
// and which pod ends when the node is short of something.
//
// It receives AgentStarted (what is allocatable), AdmissionRequested, ResizeRequested, ResizeWithdrawn, PodTerminated
// (a pod's share is free), PodFinished (its name is free), UidRequested, UidWithdrawn, SourceSynced, PodsKeptOut,
// OrphanFound, FoundCpusLeft, DrainRequested, UncordonRequested, ShutdownSignaled, NodeObserved, PressureObserved,
// PodReclaimed, ImagesReclaimed, DevicesObserved, PreferredDevicesRead, and TimerFired of its own.
// It decides AdmissionDecided, AdmissionDeferred, ResizeDecided, AdmissionPendingPreemption and
// ResizePendingPreemption (they terminate pods of lower priority), UidGranted, UidDeferred, OrphanConfirmed,
// SharedCpusDecided, PodEvictionDecided, PodReadmitted, DrainProgressed, NodePressureDecided, EvictionProgressed,
// PodReclaimRequested, ImageReclaimRequested, DeviceCapacityDecided, DeviceHealthDecided, PreferredDevicesRequested and
// NodeReadRequested, and CallRequested for the pod CIDR that the runtime is given.
//
// An incarnation of a pod is admitted once: a restart of the agent requests no admission again. This package does not
// know what runs. Start with decide.go, then preempt.go, exclusive.go, drain.go, pressure.go, devices.go and
// podcidr.go.
package node
