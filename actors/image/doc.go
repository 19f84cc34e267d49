// Package image decides on image pulls: one pull for all pods that request an image with the same credentials, and a
// back-off for each pod and image, from 10 s doubling to 300 s, as the kubelet's. It keeps the names of the credentials
// with which images were pulled (ADR 048).
//
// It receives ImagePullRequested, ImagePullWithdrawn, PodFinished, CallFinished of its own pulls and TimerFired. It
// decides CallRequested (a pull is a call in the pull lane), ImagePullDecided and timers. Pods request a pull only if
// they need one: the call that starts a container finds out whether its image is on the node. Start with decide.go.
package image
