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

// Demand is what a pod takes of the node: the sum of its requests, and its host ports.
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
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
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
			d.HostPorts = append(d.HostPorts, strings.Join([]string{protocol, ip, strconv.Itoa(int(port.HostPort))}, "/"))
		}
	}
	slices.Sort(d.HostPorts)
	return d
}

// QOS is a pod's quality-of-service class: Guaranteed where every container has limits for CPU and
// memory and requests as much, BestEffort where none has either, else Burstable.
func QOS(p *corev1.Pod) corev1.PodQOSClass {
	if p == nil {
		return corev1.PodQOSBestEffort
	}
	guaranteed, asks := true, false
	for i := range p.Spec.Containers {
		r := &p.Spec.Containers[i].Resources
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			asks = asks || !request.IsZero() || !limit.IsZero()
			guaranteed = guaranteed && !limit.IsZero() && (request.IsZero() || request.Equal(limit))
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
