package cri

import (
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/journalet/journalet/actors/resources"
)

// unthrottled is the value of memory.high for no throttling. It is written, so that a resize ends what was before.
const unthrottled = "max"

// memoryHigh returns a container's memory.high on cgroup v2 (KEP-2570). Without a limit, what pods of the node have
// together counts; but where the pod has a limit, its cgroup throttles for all its containers.
func (o *Resources) memoryHigh(pod *corev1.Pod, container *corev1.Container) string {
	request, limit := container.Resources.Requests.Memory(), container.Resources.Limits.Memory()
	most := resources.Bytes(limit)
	if limit.IsZero() {
		if resourcehelper.IsPodLevelResourcesSet(pod) && !pod.Spec.Resources.Limits.Memory().IsZero() {
			return unthrottled
		}
		most = o.PodsMemory
	}
	high := resources.MemoryHigh(resources.Bytes(request), most, o.MemoryThrottling, int64(os.Getpagesize()))
	if high == 0 {
		return unthrottled
	}
	return strconv.FormatInt(high, 10)
}
