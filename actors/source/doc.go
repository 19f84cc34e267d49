// Package source decides for one source of pods, such as the static pod directory.
//
// It receives AgentStarted (which sources are configured), ManifestsRead (what changed in the source), PodFinished
// (nothing is left of a pod), UidGranted and UidDeferred. It decides PodUpdated ADD, UPDATE and REMOVE,
// ManifestIgnored (another file or source has the name or UID), UidRequested and UidWithdrawn (only beside other
// sources, see uids.go), PodsKeptOut (problems of manifests keep them out), SourceSynced, and PodForgotten (the pod's
// actor may end).
//
// It reads neither files nor manifests. A read costs what the changed files hold, not what the directory holds (see
// claims.go). Start with decide.go.
package source
