// Package pod decides for one pod: the heart of the agent.
//
// It receives PodUpdated of its source, AdmissionDecided, AdmissionDeferred, AdmissionPendingPreemption, ResizeDecided, AdditionDecided and ResizePendingPreemption of the node,
// PodObserved, CallFinished and CallDropped of its own calls, ImagePullDecided, ProbeResult, ReadinessGatesRead,
// TimerFired, OrphanConfirmed and AgentStarted, and decides CallRequested, CallWithdrawn, ImagePullRequested, ImagePullWithdrawn, timers,
// BackOffStarted, ProbesSet, ReadinessGatesSet, AllContainersRestarting, ResizeRequested, AdditionAsked, ResizeStarted, ResizeCompleted, PodStatusChanged, PodTerminating,
// PodTerminated, PodFinished and OrphanFound. It compares what the manifest
// wants with what was observed and what is under way, and asks only for what is missing, so that a
// repeated event, a lost hint or a restart all lead to the same end. It makes no call itself.
//
// Read state.go, evolve.go and decide.go in this order, then run.go and order.go for how a pod comes up, resize.go, found.go and added.go for
// how it gets other resources;
// the stages are explained in proto/journalet/v1/pod.proto.
package pod
