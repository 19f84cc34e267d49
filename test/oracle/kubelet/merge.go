package kubelet

import (
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/kubelet/status" // linked to below
)

//go:linkname mergePodStatus k8s.io/kubernetes/pkg/kubelet/status.mergePodStatus
func mergePodStatus(pod *v1.Pod, is, want v1.PodStatus, mayRun bool) v1.PodStatus

//go:linkname checkContainerStateTransition k8s.io/kubernetes/pkg/kubelet/status.checkContainerStateTransition
func checkContainerStateTransition(is, want *v1.PodStatus, spec *v1.PodSpec) error

//go:linkname normalizeStatus k8s.io/kubernetes/pkg/kubelet/status.normalizeStatus
func normalizeStatus(pod *v1.Pod, status *v1.PodStatus) *v1.PodStatus

//go:linkname hasPodInitialized k8s.io/kubernetes/pkg/kubelet/status.hasPodInitialized
func hasPodInitialized(logger klog.Logger, pod *v1.Pod) bool

//go:linkname initializedContainers k8s.io/kubernetes/pkg/kubelet/status.initializedContainers
func initializedContainers(list []v1.ContainerStatus) []v1.ContainerStatus

// MergeStatus returns the status that the kubelet sends of a pod: want, where the API server has is. An error: it sends
// none.
func MergeStatus(pod *v1.Pod, is, want v1.PodStatus, mayRun bool) (v1.PodStatus, error) {
	if err := checkContainerStateTransition(&is, &want, &pod.Spec); err != nil {
		return v1.PodStatus{}, err
	}
	return mergePodStatus(pod, is, *normalizeStatus(pod, want.DeepCopy()), mayRun), nil
}

// Due returns how many init containers, and whether the main ones, are to have an end when the pod has one.
func Due(pod *v1.Pod, status v1.PodStatus) (init int, main bool) {
	p := pod.DeepCopy()
	p.Status = status
	return len(initializedContainers(status.InitContainerStatuses)), hasPodInitialized(klog.Background(), p)
}
