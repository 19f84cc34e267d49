package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/must"
)

func TestHugePagesOfAPod(t *testing.T) {
	pages := func(two, one string) corev1.ResourceRequirements {
		list := corev1.ResourceList{"hugepages-2Mi": resource.MustParse(two), "hugepages-1Gi": resource.MustParse(one)}
		return corev1.ResourceRequirements{Requests: list, Limits: list}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Resources: pages("2Mi", "3Gi")}},
		Containers:     []corev1.Container{{Resources: pages("4Mi", "1Gi")}, {Resources: pages("6Mi", "1Gi")}},
	}}
	limitsOf := func(tree *Tree, p *corev1.Pod) (s string) {
		for _, l := range tree.hugePagesOf(p) {
			s += fmt.Sprintf("%s=%d ", l.Pagesize, l.Limit)
		}
		return s
	}
	two, all := &Tree{pageSizes: []string{"2MB", "64KB"}}, pages("20Mi", "0")
	own := &corev1.PodSpec{Containers: p.Spec.Containers, Resources: &all}
	for _, c := range []struct {
		what string
		tree *Tree
		pod  *corev1.Pod
		want string
	}{
		{"the sum of the containers, nothing of other sizes", two, p, "2MB=10485760 64KB=0 "},
		{"the largest init container", &Tree{pageSizes: []string{"1GB"}}, p, "1GB=3221225472 "},
		{"the pod's own", two, &corev1.Pod{Spec: *own}, "2MB=20971520 64KB=0 "},
		{"none", two, &corev1.Pod{}, "2MB=0 64KB=0 "},
		{"nothing can be bounded", &Tree{}, p, ""},
	} {
		if got := limitsOf(c.tree, c.pod); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestHugePagesAreBoundedWhereTheControllerIs(t *testing.T) {
	dir := t.TempDir()
	controllers := filepath.Join(dir, "cgroup.controllers")
	two := &Tree{unified: true, mounts: map[string]string{"": dir}}
	must.OK(t, os.WriteFile(controllers, []byte("cpu memory pids\n"), 0o600))
	if sizes := two.boundedPages(); sizes != nil {
		t.Errorf("v2 without the controller: %v", sizes)
	}
	must.OK(t, os.WriteFile(controllers, []byte("cpu hugetlb memory pids\n"), 0o600))
	one := &Tree{mounts: map[string]string{"hugetlb": dir}}
	_, err := os.Stat("/sys/kernel/mm/hugepages")
	if err == nil && (two.boundedPages() == nil || one.boundedPages() == nil) {
		t.Error("with the controller no size is bounded")
	}
	if sizes := (&Tree{mounts: map[string]string{"memory": dir}}).boundedPages(); sizes != nil {
		t.Errorf("v1 without the controller: %v", sizes)
	}
}

func TestPageSizes(t *testing.T) {
	for kilobytes, want := range map[uint64]string{
		64: "64KB", 2 << 10: "2MB", 512 << 10: "512MB", 1 << 20: "1GB", 16 << 20: "16GB",
	} {
		if got := PageSize(kilobytes); got != want {
			t.Errorf("%d KiB are %s, want %s", kilobytes, got, want)
		}
	}
}
