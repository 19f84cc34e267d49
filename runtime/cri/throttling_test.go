package cri

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestContainersAreThrottledBelowTheirLimit(t *testing.T) {
	memory := func(text string) corev1.ResourceList {
		if text == "" {
			return nil
		}
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(text)}
	}
	half := Resources{CgroupV2: true, MemoryThrottling: 0.5, PodsMemory: 8 << 30}
	one := half
	one.CgroupV2 = false
	none := half
	none.MemoryThrottling = 0
	for name, c := range map[string]struct {
		has                  Resources
		request, limit, pods string
		want                 string
	}{
		"between the two":        {half, "1Gi", "3Gi", "", "2147483648"},
		"without a limit":        {half, "2Gi", "", "", "5368709120"},
		"BestEffort":             {half, "", "", "", "4294967296"},
		"limit of the pod":       {half, "1Gi", "", "3Gi", "max"},
		"its own, and the pod's": {half, "1Gi", "2Gi", "3Gi", "1610612736"},
		"request equal to limit": {half, "1Gi", "1Gi", "", "max"},
		"cgroup v1":              {one, "1Gi", "3Gi", "", ""},
		"not configured":         {none, "1Gi", "3Gi", "", ""},
	} {
		pod := testPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: memory(c.request), Limits: memory(c.limit)}
			if c.pods != "" {
				p.Spec.Resources = &corev1.ResourceRequirements{Limits: memory(c.pods)}
			}
		})
		r := c.has.ofContainer(pod, &pod.Spec.Containers[0])
		if got := r.GetUnified()["memory.high"]; got != c.want {
			t.Errorf("%s: memory.high is %q, want %q", name, got, c.want)
		}
	}
}

func TestRequestedMemoryOfContainersIsReserved(t *testing.T) {
	withMemory := func(text string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse(text),
		}
	}
	on := Resources{CgroupV2: true, ReserveMemory: true}
	for name, c := range map[string]struct {
		has             Resources
		requests, limit corev1.ResourceList
		least, low      string
	}{
		"Guaranteed":     {on, withMemory("1Gi"), withMemory("1Gi"), "1073741824", "0"},
		"Burstable":      {on, withMemory("1Gi"), nil, "0", "1073741824"},
		"BestEffort":     {on, nil, nil, "0", "0"},
		"cgroup v1":      {Resources{ReserveMemory: true}, withMemory("1Gi"), nil, "", ""},
		"not configured": {Resources{CgroupV2: true}, withMemory("1Gi"), nil, "", ""},
	} {
		pod := testPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: c.requests, Limits: c.limit}
		})
		r := c.has.ofContainer(pod, &pod.Spec.Containers[0]).GetUnified()
		if r["memory.min"] != c.least || r["memory.low"] != c.low {
			t.Errorf("%s: %v, want %q and %q", name, r, c.least, c.low)
		}
	}
}
