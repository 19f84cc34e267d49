package pod

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/journalet/journalet/actors/apparmor"
	"github.com/journalet/journalet/actors/resources"
)

// UpdateAllowed reports whether a manifest is an update of a running pod's manifest: whether the API server would
// accept it (ValidatePodUpdate and ValidatePodResize of k8s.io/kubernetes/pkg/apis/core/validation). Everything else is
// another incarnation of the pod. ADR 024 has the table.
func UpdateAllowed(old, to *corev1.Pod) bool {
	was, is := &old.Spec, to.Spec.DeepCopy()
	if old.Name != to.Name || old.Namespace != to.Namespace || QOS(old) != QOS(to) ||
		!deadlineAllowed(was.ActiveDeadlineSeconds, is.ActiveDeadlineSeconds) ||
		!updatePodResources(was, is) ||
		!updateContainers(was.InitContainers, is.InitContainers) || !updateContainers(was.Containers, is.Containers) {
		return false
	}
	is.ActiveDeadlineSeconds = was.ActiveDeadlineSeconds
	if is.RuntimeClassName != nil {
		// What the class brings is applied at decoding. A class that changes ends no pod (ADR 020).
		is.Overhead, is.NodeSelector, is.Tolerations = was.Overhead, was.NodeSelector, was.Tolerations
	}
	if !keepsTolerations(was.Tolerations, is.Tolerations) {
		return false
	}
	is.Tolerations = was.Tolerations
	if !maps.Equal(apparmor.Annotations(old), apparmor.Annotations(to)) {
		return false
	}
	return equality.Semantic.DeepEqual(was, is)
}

// deadlineAllowed reports whether activeDeadlineSeconds may change in this way: it may be set, and lowered.
func deadlineAllowed(was, is *int64) bool { return was == nil || is != nil && *is <= *was }

// keepsTolerations reports whether every toleration is still there. Its seconds may differ.
func keepsTolerations(was, is []corev1.Toleration) bool {
	has := make(map[corev1.Toleration]bool, len(is)) // a pod may have thousands
	for _, t := range is {
		t.TolerationSeconds = nil
		has[t] = true
	}
	return !slices.ContainsFunc(was, func(t corev1.Toleration) bool {
		t.TolerationSeconds = nil
		return !has[t]
	})
}

// updatePodResources reports whether the resources of the pod as a whole may change in this way. It gives them back
// their old CPU and memory.
func updatePodResources(was, is *corev1.PodSpec) bool {
	none := new(corev1.ResourceRequirements)
	if !resources.Keeps(cmp.Or(was.Resources, none), cmp.Or(is.Resources, none)) {
		return false
	}
	resources.PutPod(is, was)
	return true
}

// updateContainers reports whether containers may change in this way. It gives them back their old image, CPU and
// memory as far as these may change.
func updateContainers(was, is []corev1.Container) bool {
	if len(was) != len(is) {
		return false
	}
	for i := range is {
		if !resources.Keeps(&was[i].Resources, &is[i].Resources) {
			return false
		}
		if was[i].Image != is[i].Image {
			// The default of imagePullPolicy follows from the image's tag.
			is[i].Image, is[i].ImagePullPolicy = was[i].Image, was[i].ImagePullPolicy
		}
		resources.Put(&is[i].Resources, &was[i].Resources)
	}
	return true
}
