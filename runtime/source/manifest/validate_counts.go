package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of what one pod adds to records of the journal, of at most 1 MiB each, and to the runtime's lists of all
// objects, of at most 16 MiB. The API server has none of them but the bytes of all annotations (256 KiB).
const (
	// MaxContainers bounds the main and init containers of a pod. An observation of 80 containers with two instances
	// each, all with a termination message of 4 KiB, fits a record.
	MaxContainers = 80
	// maxReadinessGates bounds the readiness gates of a pod: their types of up to 316 bytes are in its status.
	maxReadinessGates = 100
	// maxHostPorts bounds the host ports of a pod, which its request for admission lists with their addresses: 550 KiB.
	maxHostPorts = 10_000
	// maxLabelBytes bounds all labels of a pod, which the runtime lists with its sandboxes: as many bytes as annotations
	// may have.
	maxLabelBytes = 256 << 10
)

func validateCounts(pod *corev1.Pod, spec *field.Path) (errs field.ErrorList) {
	s := &pod.Spec
	atMost := func(n, limit int, at *field.Path, what string) {
		if n > limit {
			errs = append(errs, field.Invalid(at, n, fmt.Sprintf("must not be more than %d%s", limit, what)))
		}
	}
	atMost(len(s.Containers)+len(s.InitContainers), MaxContainers, spec.Child("containers"), ", with the init containers")
	atMost(len(s.ReadinessGates), maxReadinessGates, spec.Child("readinessGates"), "")
	ports := 0
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for _, port := range list[i].Ports {
				if port.HostPort != 0 {
					ports++
				}
			}
		}
	}
	atMost(ports, maxHostPorts, spec.Child("containers"), " host ports")
	labels := 0
	for key, value := range pod.Labels {
		labels += len(key) + len(value)
	}
	atMost(labels, maxLabelBytes, field.NewPath("metadata", "labels"), " bytes in all")
	return errs
}

// validateMessagePath refuses the path of a termination message that no file can have.
func validateMessagePath(path string, at *field.Path) field.ErrorList {
	if len(path) > maxPathBytes {
		return field.ErrorList{field.TooLong(at, "", maxPathBytes)}
	}
	return nil
}
