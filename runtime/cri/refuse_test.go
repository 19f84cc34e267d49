package cri

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestWhatNoDriverCarriesOutIsRefused sets one such field at a time.
func TestWhatNoDriverCarriesOutIsRefused(t *testing.T) {
	own := false
	for name, set := range map[string]func(*corev1.Pod){
		"hostUsers": func(p *corev1.Pod) { p.Spec.HostUsers = &own },
		"seLinuxOptions": func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}}
		},
		"a container's seLinuxOptions": func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{}}
		},
		"huge pages": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")}
		},
	} {
		if _, err := testDriver().sandboxConfig(testPod(set), 0, "i", "/logs"); err == nil {
			t.Errorf("%s: carried out", name)
		}
	}
}
