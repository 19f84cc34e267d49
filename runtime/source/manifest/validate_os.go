package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// windowsOptions returns the paths of the options for Windows that a pod has. On Linux they have no effect, as with the
// kubelet, so their values are not validated.
func windowsOptions(s *corev1.PodSpec) (paths []string) {
	if s.SecurityContext != nil && s.SecurityContext.WindowsOptions != nil {
		paths = append(paths, "spec.securityContext.windowsOptions")
	}
	collect := func(name string, list []corev1.Container) {
		for i := range list {
			if sc := list[i].SecurityContext; sc != nil && sc.WindowsOptions != nil {
				paths = append(paths, fmt.Sprintf("spec.%s[%d].securityContext.windowsOptions", name, i))
			}
		}
	}
	collect("initContainers", s.InitContainers)
	collect("containers", s.Containers)
	return paths
}

func validateOS(r *report, s *corev1.PodSpec) {
	switch os := s.OS; {
	case os == nil:
	case os.Name == corev1.Windows:
		r.notYet("spec.os.name", "Windows")
	case os.Name == corev1.Linux:
		for _, path := range windowsOptions(s) { // the words are the API server's
			r.addAt(path, CodeInvalid, "Forbidden: windows options cannot be set for a linux pod",
				"remove it, or spec.os.name")
		}
	default:
		r.invalid(oneOf(os.Name, field.NewPath("spec", "os", "name"), corev1.Linux))
	}
}

// warnWindows warns of options that have no effect.
func warnWindows(r *report, s *corev1.PodSpec) {
	for _, path := range windowsOptions(s) {
		r.warn(path, "has no effect: this node runs Linux")
	}
}
