package cri

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// limitedPod returns a pod with a container of a tenth of a CPU and at most a quarter of one.
func limitedPod() *corev1.Pod {
	return testPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: list("100m", "64Mi"), Limits: list("250m", "64Mi"),
		}
	})
}

func TestLimitsOfCPUFollowTheNode(t *testing.T) {
	pod, alone := limitedPod(), &journaletv1.Placement{Cpus: "2", Exclusive: true}
	for name, c := range map[string]struct {
		by            cgroup.CPUQuota
		quota, period int64
		alone         int64
	}{
		"by default":        {cgroup.CPUQuota{}, 25_000, 100_000, -1},
		"in a short period": {cgroup.CPUQuota{Period: 10_000}, 2500, 10_000, -1},
		"not enforced":      {cgroup.CPUQuota{Off: true}, 0, 0, 0},
	} {
		d := testDriver()
		d.opts.Resources.CPUQuota = c.by
		for which, r := range map[string]*runtimeapi.LinuxContainerResources{
			"container": d.opts.Resources.ofContainer(pod, &pod.Spec.Containers[0]), "sandbox": d.sandboxResources(pod),
		} {
			if r.GetCpuQuota() != c.quota || r.GetCpuPeriod() != c.period || r.GetCpuShares() != 102 ||
				r.GetMemoryLimitInBytes() != 64<<20 {
				t.Errorf("%s, %s: %v", name, which, r)
			}
		}
		if r := placed(d.opts.Resources.ofContainer(pod, &pod.Spec.Containers[0]), alone); r.GetCpuQuota() != c.alone {
			t.Errorf("%s, with CPUs of its own: %v", name, r)
		}
	}
}

func TestMemoryKillsAContainerOrOneProcess(t *testing.T) {
	pod := limitedPod()
	pod.Spec.Containers[0].Resources.Limits = list("", "128Mi")
	for _, single := range []bool{false, true} {
		node := Resources{CgroupV2: true, SingleProcessOOMKill: single, MemoryThrottling: 0.5}
		got := node.ofContainer(pod, &pod.Spec.Containers[0]).GetUnified()
		if _, whole := got["memory.oom.group"]; whole == single || got["memory.high"] == "" {
			t.Errorf("single process %v: %v", single, got)
		}
	}
}
