// Package storage measures the local ephemeral storage of pods that set a limit for it: emptyDir volumes with a
// sizeLimit, and containers with limits of ephemeral-storage. It reports a limit that is exceeded, once, in the
// kubelet's words; the pod's actor decides what follows. It may not change what it measures, follows no link and enters
// no mount. Start reading at limits.go, which has the rules and is pure, then driver.go.
package storage
