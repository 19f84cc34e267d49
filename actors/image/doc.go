// Package image decides on pulls: one pull for however many pods ask for an image, and a back-off
// for each pod and image, from 10 s doubling to 300 s as the kubelet's.
//
// It receives ImagePullRequested, ImagePullWithdrawn, PodFinished, CallFinished of its own pulls and TimerFired, and decides
// CallRequested (the pull itself is a call of the runtime's pull lane), ImagePullDecided and timers.
// It is asked only where a pull is needed: whether an image is on the node is seen when a container
// is started. Start with decide.go.
package image
