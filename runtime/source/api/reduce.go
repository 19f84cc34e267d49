package api

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// kindReduced is the kind of a pod that Reduce has seen. What the API server sends as kind is dropped by client.
const kindReduced = "Reduced"

// beyondBounds is the annotation of a pod that is left with its names, because the rest is beyond what this node takes;
// its value says what. One that the API server sends is dropped.
const beyondBounds = "journalet.io/beyond-bounds"

// storedAs is the annotation of a pod that is in the store of manifests already, and here without its large texts, see
// manifest.Light. Its value is the digest of the whole. If the API server sends this annotation, it is dropped.
const storedAs = "journalet.io/stored-as"

// minStored is the least size in bytes of a manifest that is stored as it arrives. Smaller manifests are stored many at
// once.
const minStored = 32 << 10

// maxMirrorValue bounds the annotations that are kept of a mirror pod: the annotations that make it a mirror pod are
// UIDs, digests, times.
const maxMirrorValue = 256

// Reduce drops what nobody reads of a pod as soon as the API server has sent it. A mirror pod keeps what makes it a
// mirror pod. A pod that has ended keeps its names and its status: a node may have 12,500 such pods. A pod beyond a
// bound of the node keeps its names, since the node needs them to reject and delete it.
func Reduce(pod *corev1.Pod) {
	if pod.Kind == kindReduced {
		return
	}
	pod.Kind, pod.APIVersion = kindReduced, ""
	pod.ManagedFields = nil // they are most of an object
	delete(pod.Annotations, beyondBounds)
	delete(pod.Annotations, storedAs)
	delete(pod.Annotations, allocatedAs)
	switch {
	case client.Unreadable(pod) != "":
	case manifest.IsMirror(pod):
		kept := pod.Annotations
		maps.DeleteFunc(kept, func(_, value string) bool { return len(value) > maxMirrorValue })
		bare(pod)
		pod.Annotations = kept
	case terminal(pod) != journaletv1.PodPhase_POD_PHASE_UNSPECIFIED:
		bare(pod)
	default:
		if why := manifest.Gate(pod); why != "" {
			refuse(pod, why)
		}
	}
}

// Reduce reduces a pod as the function of this name does, and stores a large one: many of them would not fit into
// memory. It is called with one pod after the other, as the API server sends them. If the store fails, the pod stays
// whole and HandOver stores it.
func (d *Driver) Reduce(ctx context.Context, pod *corev1.Pod) {
	Reduce(pod)
	switch {
	case pod.ObjectMeta.Size()+pod.Spec.Size() < minStored, refusal(pod) != "", manifest.IsMirror(pod), isBare(pod),
		d.opts.NodeName != "" && pod.Spec.NodeName != d.opts.NodeName:
		return
	}
	parsed, asAdmitted, err := d.parse(pod)
	if err != nil {
		return
	}
	d.mu.Lock()
	recorded, before := d.recorded[pod.UID], d.before[pod.UID]
	d.mu.Unlock()
	as := parsed.Digest
	if recorded != "" && recorded != as && recorded == before && parsed.Escaped().Digest == recorded {
		as = recorded
	}
	if as != recorded {
		if err := d.opts.Store(ctx, maps.All(map[string][]byte{as: parsed.Canonical})); err != nil {
			d.log.Warn("cannot store a pod as it arrives; it is tried again", "uid", pod.UID, "error", err)
			return
		}
	}
	if err := d.storeAllocated(ctx, asAdmitted); err != nil {
		d.log.Warn("cannot store a pod as a kubelet had admitted it; it is tried again", "uid", pod.UID, "error", err)
		return
	}
	d.opts.Prime(as, parsed.Pod)
	light := d.opts.Newest(string(pod.UID)) // actors have the same: it is in memory once
	if light == nil {
		light = manifest.Light(parsed.Pod)
	}
	pod.Spec = light.Spec
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, storedAs, as)
	if asAdmitted != nil {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, allocatedAs, asAdmitted.Digest)
	}
}

// parse returns a pod as it is stored, and as a kubelet had admitted it; nil if its spec counts.
func (d *Driver) parse(pod *corev1.Pod) (parsed manifest.Parsed, asAdmitted *manifest.Parsed, err error) {
	defer defect.Recover(d.failed(pod, &err))
	if parsed, err = manifest.FromAPI(pod); err != nil {
		return parsed, nil, err
	}
	if as := d.asAllocated(pod); as != nil {
		admitted, err := manifest.FromAPI(as)
		return parsed, &admitted, err
	}
	return parsed, nil, nil
}

// refusal returns why a pod is rejected with no more than its names, "" for any other.
func refusal(pod *corev1.Pod) string {
	if why := client.Unreadable(pod); why != "" {
		return "an object of the API server that cannot be read: " + why
	}
	return pod.Annotations[beyondBounds]
}

// isBare reports whether a pod has ended and was reduced, so that its manifest is not known.
func isBare(pod *corev1.Pod) bool { return terminal(pod) != journaletv1.PodPhase_POD_PHASE_UNSPECIFIED }

// refuse leaves of a pod its names, and why the rest is refused.
func refuse(pod *corev1.Pod, why string) {
	bare(pod)
	pod.Annotations = map[string]string{beyondBounds: why}
}

// bare leaves of a pod what names it, what its deletion and its status need.
func bare(pod *corev1.Pod) {
	m, s := &pod.ObjectMeta, &pod.Spec
	*pod = corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: kindReduced},
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
			CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
			DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		},
		Spec: corev1.PodSpec{
			NodeName: s.NodeName, RestartPolicy: s.RestartPolicy, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		},
		Status: pod.Status,
	}
}
