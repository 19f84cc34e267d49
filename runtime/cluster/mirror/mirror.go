package mirror

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The annotations of a mirror pod. The API server knows one by Annotation.
const (
	// Annotation has the hash of the static pod: its UID.
	Annotation = corev1.MirrorPodAnnotationKey
	// annotationSeen is when the agent first saw the static pod, in this incarnation.
	annotationSeen = "kubernetes.io/config.seen"
	// annotationDigest has the digest of the manifest. A manifest with a UID of its own may change under it.
	annotationDigest = "journalet.io/manifest-digest"
)

// Static is a static pod that is to have a mirror pod.
type Static struct {
	// Pod is the pod as its actor shows it.
	Pod *corev1.Pod
	// Digest is the digest of its manifest.
	Digest string
}

// Is reports whether a pod of the API server is a mirror pod.
func Is(pod *corev1.Pod) bool { return pod.Annotations[Annotation] != "" }

// Of returns the UID of the static pod that a mirror pod shows, on the node.
func Of(mirror *corev1.Pod) string { return mirror.Annotations[Annotation] }

// build returns the mirror pod of a static pod. Its only owner is the Node, as the API server requires.
func (s Static) build(node string, uid types.UID) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Pod.Namespace, Name: s.Pod.Name, Labels: s.Pod.Labels, Annotations: maps.Clone(s.Pod.Annotations),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: node, UID: uid, Controller: &yes,
			}},
		},
		Spec: *s.Pod.Spec.DeepCopy(),
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[Annotation] = string(s.Pod.UID)
	p.Annotations[annotationDigest] = s.Digest
	p.Annotations[annotationSeen] = seen(s.Pod)
	p.Spec.NodeName = node
	return p
}

// seen returns when the present incarnation of a static pod was first seen.
func seen(static *corev1.Pod) string { return static.CreationTimestamp.UTC().Format(time.RFC3339Nano) }

// shows reports whether a mirror pod shows this static pod as it is now.
func (s Static) shows(mirror *corev1.Pod) bool {
	return showsIncarnation(mirror, s.Pod) && (ofKubelet(mirror) || mirror.Annotations[annotationDigest] == s.Digest)
}

// showsIncarnation reports whether a mirror pod shows the present incarnation of a static pod, and may have its status.
// The status of an earlier one may be terminal, which is for good.
func showsIncarnation(mirror, static *corev1.Pod) bool {
	return mirror.DeletionTimestamp == nil && Of(mirror) == string(static.UID) &&
		(ofKubelet(mirror) || mirror.Annotations[annotationSeen] == seen(static))
}

// ofKubelet reports whether a kubelet has created a mirror pod, whose static pod has been taken over. It stays until
// its status is terminal. The hash says which content it shows.
func ofKubelet(mirror *corev1.Pod) bool {
	return mirror.Annotations[annotationDigest] == "" && mirror.Status.Phase != corev1.PodSucceeded &&
		mirror.Status.Phase != corev1.PodFailed
}
