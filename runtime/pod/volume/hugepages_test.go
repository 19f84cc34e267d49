package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/must"
)

func requesting(pod *corev1.Pod, names ...corev1.ResourceName) *corev1.Pod {
	for i, name := range names {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: string(rune('a' + i)),
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("4Mi")}}})
	}
	return pod
}

func TestHugePagesAreOfTheSizeThatThePodRequests(t *testing.T) {
	for _, c := range []struct {
		medium   corev1.StorageMedium
		requests []corev1.ResourceName
		size     string
		says     string
	}{
		{"HugePages", []corev1.ResourceName{"hugepages-2Mi"}, "2Mi", ""},
		{"HugePages", []corev1.ResourceName{"memory", "hugepages-1Gi"}, "1Gi", ""},
		{"HugePages", []corev1.ResourceName{"hugepages-2Mi", "hugepages-1Gi"}, "", "multiple huge page sizes"},
		{"HugePages", []corev1.ResourceName{"memory"}, "", "no resource request for huge pages"},
		{"HugePages-1Gi", []corev1.ResourceName{"hugepages-2Mi", "hugepages-1Gi"}, "1Gi", ""},
		{"HugePages-1Gi", []corev1.ResourceName{"hugepages-2Mi"}, "", "no resource request for huge pages"},
		{"HugePages-1024Mi", []corev1.ResourceName{"hugepages-1Gi"}, "1Gi", ""},
		{"HugePages-x", nil, "", `unknown storage medium "HugePages-x"`},
		{"Disk", nil, "", `unknown storage medium "Disk"`},
	} {
		size, err := pageSize(c.medium, requesting(podWith(), c.requests...))
		if size != c.size || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s for %v: %q, %v", c.medium, c.requests, size, err)
		}
	}
}

func TestHugePagesAreMountedOnce(t *testing.T) {
	d, m, _ := newTest(t)
	g := group(t)
	pod := requesting(podWith(emptyDir("huge", "HugePages", "")), "hugepages-2Mi")
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &g}
	for range 2 {
		must.OK(t, setUp(t, d, pod))
	}
	path := pathOf(t, d, pod, "huge")
	f := m.mounted[path]
	if len(m.points) != 1 || f.kind != hugetlbfs || strings.Join(f.options(), ",") != "pagesize=2Mi" {
		t.Errorf("mounts %v, %v", m.points, m.mounted)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeDir|os.ModeSetgid|0o777 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	m.points[0].fsType = "ext4"
	if err := setUp(t, d, pod); err == nil || !strings.Contains(err.Error(), "a mount of another kind (ext4)") {
		t.Errorf("on another mount: %v", err)
	}
	m.points[0].fsType = hugetlbfs
	must.OK(t, tearDownPod(t, d, "u1"))
	if _, err := os.Lstat(filepath.Dir(path)); !os.IsNotExist(err) || len(m.points) > 0 {
		t.Errorf("left: %v, %v", m.points, err)
	}
}

// A container that changes the mode of its volume keeps that when the call is repeated.
func TestSetUpAgainKeepsWhatContainersDid(t *testing.T) {
	d, _, _ := newKernelTest(t)
	pod := podWith(emptyDir("disk", "", ""), emptyDir("mem", corev1.StorageMediumMemory, ""))
	must.OK(t, setUp(t, d, pod))
	for _, name := range []string{"disk", "mem"} {
		must.OK(t, os.Chmod(pathOf(t, d, pod, name), 0o700))
	}
	must.OK(t, setUp(t, d, pod))
	for _, name := range []string{"disk", "mem"} {
		if got := mode(t, pathOf(t, d, pod, name)); got != 0o700 {
			t.Errorf("volume %s has mode %o", name, got)
		}
	}
}
