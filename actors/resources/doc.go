// Package resources tells what changes when a pod gets other CPU and memory: which manifest's values count, what a container
// has, and what its resizePolicy says. It is no actor and keeps nothing; the pod's decider, the drivers and the tests
// share it. It may not look at anything but manifests. Start with resize.go; ADR 014 says why.
package resources
