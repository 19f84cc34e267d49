// Package image decides on the images of the node: one pull for all pods that request an image with the same
// credentials, with the kubelet's back-off for each pod and image, from 10 s doubling to 300 s; and which images are
// removed, for space, for age, for operators (ADR 047) and for a node that is short of storage (ADR 063). It keeps the
// names of the credentials that images were pulled with (ADR 048).
//
// It receives ImagePullRequested, ImagePullWithdrawn, PodFinished, ImagesObserved, ImageFilesystemFull,
// OperatorPullRequested, ImageRemovalRequested, ImageReclaimRequested, CallFinished of its own calls and TimerFired. It
// decides CallRequested (a pull is a call in the pull lane, a removal one in the remove lane), ImagePullDecided,
// ImagesCollected, ImagesReclaimed, OperatorPullDecided, ImageRemovalDecided and timers. Pods request a pull only if
// they need one: the call that starts a container finds out whether its image is on the node. Start with decide.go;
// collect.go and reclaim.go have the removals.
package image
