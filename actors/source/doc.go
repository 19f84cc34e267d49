// Package source decides for one source of pods, such as the static pod folder.
//
// It receives AgentStarted (which sources are configured), ManifestsRead (what changed in the source),
// PodFinished (nothing is left of a pod), UidGranted and UidDeferred, and decides PodUpdated ADD, UPDATE and REMOVE,
// ManifestIgnored (a name or UID taken by an earlier file or another source), UidRequested and UidWithdrawn (only beside other
// sources, see uids.go), SourceSynced and PodForgotten (the pod's actor may end). It does not read files and
// does not look into manifests. A reading costs what its files hold, not what the folder holds (see
// claims.go). Start with decide.go.
package source
