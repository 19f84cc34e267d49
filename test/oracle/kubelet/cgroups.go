package kubelet

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

// PodCgroup holds the values that the kubelet writes to a pod's cgroup; 0 for values that it does not write.
type PodCgroup struct {
	Class         string
	Shares        uint64
	Quota, Memory int64
	Period        uint64
}

// CgroupOf returns the values of a pod's cgroup. Limits of CPU are enforced within a period, in microseconds, or not.
func CgroupOf(pod *corev1.Pod, enforced bool, period uint64) PodCgroup {
	r := cm.ResourceConfigForPod(pod, enforced, period, false, kubeletconfig.NoneMemoryReservationPolicy)
	out := PodCgroup{Class: string(qos.GetPodQOS(pod)), Shares: *r.CPUShares}
	if r.CPUQuota != nil && *r.CPUQuota != 0 {
		out.Quota, out.Period = *r.CPUQuota, *r.CPUPeriod
	}
	if r.Memory != nil {
		out.Memory = *r.Memory
	}
	return out
}

// CgroupPath returns the path of a pod's cgroup, joined as in qosContainerManagerImpl and podContainerManagerImpl.
func CgroupPath(pod *corev1.Pod, root string, systemd bool) string {
	name := cm.NewCgroupName(cm.ParseCgroupfsToCgroupName(root), "kubepods")
	if class := qos.GetPodQOS(pod); class != corev1.PodQOSGuaranteed {
		name = cm.NewCgroupName(name, strings.ToLower(string(class)))
	}
	name = cm.NewCgroupName(name, cm.GetPodCgroupNameSuffix(pod.UID))
	if systemd {
		return name.ToSystemd()
	}
	return name.ToCgroupfs()
}
