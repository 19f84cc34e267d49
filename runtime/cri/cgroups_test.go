package cri

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/must"
)

func TestDetectCgroups(t *testing.T) {
	root := t.TempDir()
	put := func(name, content string) {
		t.Helper()
		path := filepath.Join(root, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o750))
		must.OK(t, os.WriteFile(path, []byte(content), 0o600))
	}
	if got := DetectCgroups(root, false); got.Swap || got.HugePages != nil {
		t.Errorf("a node without files has %+v", got)
	}
	for _, size := range []string{"hugepages-64kB", "hugepages-2048kB", "hugepages-1048576kB"} {
		put("sys/kernel/mm/hugepages/"+size+"/nr_hugepages", "0")
	}
	put("proc/self/cgroup", "0::/system.slice/agent.service\n")
	for _, v2 := range []bool{false, true} {
		if got := DetectCgroups(root, v2); got.HugePages != nil {
			t.Errorf("without the controller, cgroup v2 %t, huge pages are limited: %v", v2, got.HugePages)
		}
	}
	put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n")
	if got := DetectCgroups(root, true); got.Swap || !reflect.DeepEqual(got.HugePages, []string{"1GB", "2MB", "64KB"}) {
		t.Errorf("a node with three sizes and no swap has %+v", got)
	}
	put("sys/fs/cgroup/system.slice/agent.service/memory.swap.max", "max")
	if !DetectCgroups(root, true).Swap || DetectCgroups(root, false).Swap {
		t.Error("the file of the unified hierarchy must count on cgroup v2 only")
	}
	put("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "1")
	put("sys/fs/cgroup/hugetlb/cgroup.procs", "1")
	if got := DetectCgroups(root, false); !got.Swap || len(got.HugePages) != 3 {
		t.Errorf("a node with the files of cgroup v1 has %+v", got)
	}
}

func TestContainersGetNoSwapAndNoHugePages(t *testing.T) {
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	})
	node := &Resources{Cgroups: Cgroups{HugePages: []string{"2MB"}, Swap: true}}
	r := node.ofContainer(pod, &pod.Spec.Containers[0])
	if r.MemorySwapLimitInBytes != 1<<30 || len(r.HugepageLimits) != 1 || r.HugepageLimits[0].PageSize != "2MB" ||
		r.HugepageLimits[0].Limit != 0 {
		t.Errorf("cgroup v1: %v", r)
	}
	node.CgroupV2 = true
	if r = node.ofContainer(pod, &pod.Spec.Containers[0]); r.Unified["memory.swap.max"] != "0" ||
		r.MemorySwapLimitInBytes != 0 {
		t.Errorf("cgroup v2: %v", r)
	}
	node.Cgroups = Cgroups{}
	if r = node.ofContainer(pod, &pod.Spec.Containers[0]); r.Unified["memory.swap.max"] != "" ||
		r.HugepageLimits != nil {
		t.Errorf("a node that cannot limit them: %v", r)
	}
}
