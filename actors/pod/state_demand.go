package pod

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Demand is what a pod takes of the node, and its host ports: the requests of its main containers and sidecars together, or
// what an init container needs beside the sidecars before it, if that is more.
func Demand(p *corev1.Pod) *journaletv1.PodDemand {
	if p == nil {
		return new(journaletv1.PodDemand)
	}
	requests := resource.PodRequests(p, resource.PodResourcesOptions{})
	d := &journaletv1.PodDemand{
		MilliCpu:              requests.Cpu().MilliValue(),
		MemoryBytes:           requests.Memory().Value(),
		EphemeralStorageBytes: requests.StorageEphemeral().Value(),
	}
	for i := range p.Spec.InitContainers {
		// The others give their ports back before those of the main containers are taken.
		if c := &p.Spec.InitContainers[i]; isSidecar(c) {
			d.HostPorts = append(d.HostPorts, hostPorts(c)...)
		}
	}
	for i := range p.Spec.Containers {
		d.HostPorts = append(d.HostPorts, hostPorts(&p.Spec.Containers[i])...)
	}
	slices.Sort(d.HostPorts)
	return d
}

// Question is what a pod asks the node before it runs.
func Question(ref *journaletv1.PodRef, p *corev1.Pod) *journaletv1.AdmissionRequested {
	return &journaletv1.AdmissionRequested{
		Uid: ref.GetUid(), Namespace: ref.GetNamespace(), Name: ref.GetName(), Digest: ref.GetDigest(), Demand: Demand(p),
		Priority: priority(p), Qos: qosClasses[QOS(p)],
	}
}

// hostPorts are a container's host ports as protocol/address/port, the address empty for every one.
func hostPorts(c *corev1.Container) []string {
	var all []string
	for _, port := range c.Ports {
		if port.HostPort == 0 {
			continue
		}
		ip := port.HostIP
		if ip == "0.0.0.0" || ip == "::" {
			ip = ""
		}
		protocol := string(port.Protocol)
		if protocol == "" {
			protocol = string(corev1.ProtocolTCP)
		}
		all = append(all, strings.Join([]string{protocol, ip, strconv.Itoa(int(port.HostPort))}, "/"))
	}
	return all
}

// QOS is a pod's quality-of-service class: Guaranteed where every container, init containers too, has limits for CPU and
// memory and requests as much or says nothing, BestEffort where none has either, else Burstable. Where the pod has resources of its own, these
// alone count.
func QOS(p *corev1.Pod) corev1.PodQOSClass {
	if p == nil {
		return corev1.PodQOSBestEffort
	}
	guaranteed, asks := true, false
	see := func(r *corev1.ResourceRequirements) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, said := r.Requests[name]
			limit := r.Limits[name]
			asks = asks || !request.IsZero() || !limit.IsZero()
			guaranteed = guaranteed && !limit.IsZero() && (!said || request.Equal(limit))
		}
	}
	if resource.IsPodLevelResourcesSet(p) {
		see(p.Spec.Resources)
	} else {
		for c := range containersOf(p) {
			see(&c.Resources)
		}
	}
	switch {
	case !asks:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

func typesUID(uid string) types.UID { return types.UID(uid) }

// priority is a pod's priority; what its source leaves out is 0.
func priority(p *corev1.Pod) int32 {
	if p == nil || p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

var qosClasses = map[corev1.PodQOSClass]journaletv1.QosClass{
	corev1.PodQOSBestEffort: journaletv1.QosClass_QOS_CLASS_BEST_EFFORT,
	corev1.PodQOSBurstable:  journaletv1.QosClass_QOS_CLASS_BURSTABLE,
	corev1.PodQOSGuaranteed: journaletv1.QosClass_QOS_CLASS_GUARANTEED,
}
