// Package pod is the decider of one pod, the heart of the agent. It compares the manifest with the observed containers
// and the calls under way, and requests only what is missing. So a repeated event, a lost hint and a restart of the
// agent all lead to the same end. It performs no call itself.
//
// It receives
//   - PodUpdated of its source;
//   - AdmissionDecided, AdmissionDeferred, AdmissionPendingPreemption, ResizeDecided, ResizePendingPreemption,
//     SharedCpusDecided, OrphanConfirmed, PodEvictionDecided, PodReclaimRequested, PodReadmitted and
//     DeviceHealthDecided of the node;
//   - RestartRequested of operators, and ApiDeleteFinished;
//   - PodObserved of the PLEG, ProbeResult, and ReadinessGatesRead;
//   - ObjectsRead of the objects store, VolumesLost, PodDirectoryFound and StorageExceeded;
//   - ClaimHealthObserved of DRA drivers;
//   - CallFinished and CallDropped of its own calls, and ImagePullDecided;
//   - TimerFired and AgentStarted.
//
// It decides
//   - AdmissionRequested, ResizeRequested, ResizeWithdrawn, OrphanFound and FoundCpusLeft, for the node;
//   - CallRequested, CallWithdrawn, ImagePullRequested and ImagePullWithdrawn;
//   - ProbesSet, ReadinessGatesSet, ObjectsSet, TimerSet and TimerCleared;
//   - BackOffStarted, AllContainersRestarting, ResizeStarted and ResizeCompleted, for itself;
//   - PodStatusChanged, PodTerminating, PodTerminated, PodReclaimed, PodFinished and ApiDeleteRequested.
//
// A file's prefix says what the file does:
//   - evolve_ folds events. Only these files change the state.
//   - decide_ decides what to request. A file covers one concern: run (bring the pod up), ephemeral, volumes,
//     devices, terminate, cleanup, evict, hooks, probes, placement, resize, restart (of all containers), operator,
//     backoff, deadline.
//   - status_ computes what is reported: phase and conditions, the API's view, what a container or the pod waits for.
//   - state_ reads the manifest and the records, for the other three.
//
// api.go holds what only pods of the API server need.
//
// Read state.go, evolve.go and decide.go in this order. Then decide_run.go and state_init.go show how a pod starts,
// state_resources.go and decide_resize.go how it is resized, update.go which manifest is an update. The stages of a pod
// are explained in proto/journalet/v1/pod.proto.
package pod
