// Package resources works out CPU and memory of containers in a resize: which manifest's values apply, what a
// container has, and what its resizePolicy demands. It is not an actor and keeps no state; the pod's decider, the
// drivers and the tests share it. It may read only manifests. Start with resources.go; ADR 014 gives the reasons.
package resources
