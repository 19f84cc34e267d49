package takeover

import (
	corev1 "k8s.io/api/core/v1"

	actor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/runtime/kubeletstate"
)

// Allocated returns pods as a kubelet had admitted them: with the resources that it had allocated, by UID.
type Allocated map[string]kubeletstate.PodResources

// Pod returns a pod of the API server with the CPU and memory that were allocated to it. It returns nil if they are
// what its spec requests, if nothing is known of the pod, and if the spec could not be an update of such a pod: its
// containers would end.
func (a Allocated) Pod(spec *corev1.Pod) *corev1.Pod {
	had, known := a[string(spec.UID)]
	if !known {
		return nil
	}
	p := spec.DeepCopy()
	if p.Spec.Resources != nil && had.Pod != nil {
		resources.Put(p.Spec.Resources, had.Pod)
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i, c := range list {
			if r, ok := had.Containers[c.Name]; ok {
				resources.Put(&list[i].Resources, &r)
			}
		}
	}
	if resources.Same(p, spec) || !actor.UpdateAllowed(p, spec) {
		return nil
	}
	return p
}
