package pod

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/devices"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Demand returns what a pod takes of the node, and its host ports: the requests of its main containers and sidecars
// together, or what an init container needs beside the sidecars before it, if that is more.
func Demand(p *corev1.Pod) *journaletv1.PodDemand {
	if p == nil {
		return new(journaletv1.PodDemand)
	}
	requests := resource.PodRequests(p, resource.PodResourcesOptions{})
	d := &journaletv1.PodDemand{
		MilliCpu:              resources.Millis(requests.Cpu()),
		MemoryBytes:           resources.Bytes(requests.Memory()),
		EphemeralStorageBytes: resources.Bytes(requests.StorageEphemeral()),
		HugePages:             resources.HugePages(requests),
	}
	for i := range p.Spec.InitContainers {
		// Regular init containers release their ports before the main containers take theirs.
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

// AdmissionRequest returns a pod's request for admission, without its incarnation.
func AdmissionRequest(ref *journaletv1.PodRef, p *corev1.Pod) *journaletv1.AdmissionRequested {
	return &journaletv1.AdmissionRequested{
		Uid: ref.GetUid(), Namespace: ref.GetNamespace(), Name: ref.GetName(), Digest: ref.GetDigest(), Demand: Demand(p),
		Priority: priority(p), Qos: qosClasses[QOS(p)],
		UserNamespace: p != nil && p.Spec.HostUsers != nil && !*p.Spec.HostUsers,
		SharesName:    ref.GetApi() != nil, Unsupported: ref.GetApi().GetUnsupported(),
		Devices: slices.DeleteFunc(devices.Demand(p), func(d *journaletv1.DeviceDemand) bool {
			return hasExtended(ref.GetApi(), d.GetContainer(), d.GetResource()) // drivers have it, and no plugin
		}),
	}
}

// hasExtended reports whether a claim stands for an extended resource of a container.
func hasExtended(api *journaletv1.ApiPod, container, resource string) bool {
	return slices.ContainsFunc(api.GetExtendedClaim().GetRequests(), func(r *journaletv1.ExtendedRequest) bool {
		return r.GetContainer() == container && r.GetResource() == resource
	})
}

// hostPorts returns a container's host ports as protocol/address/port. The address is empty for every address.
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

// QOS returns a pod's quality-of-service class. It is Guaranteed where every container, init containers too, has limits
// for CPU and memory and requests that are equal or not given, BestEffort where no container has either, else
// Burstable. Where the pod has resources of its own, only these count.
func QOS(p *corev1.Pod) corev1.PodQOSClass {
	if p == nil {
		return corev1.PodQOSBestEffort
	}
	guaranteed, found := true, false
	add := func(r *corev1.ResourceRequirements) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, given := r.Requests[name]
			limit := r.Limits[name]
			found = found || !request.IsZero() || !limit.IsZero()
			guaranteed = guaranteed && !limit.IsZero() && (!given || request.Equal(limit))
		}
	}
	if resource.IsPodLevelResourcesSet(p) {
		add(p.Spec.Resources)
	} else {
		for c := range containers.WithoutEphemeral(p) {
			add(&c.Resources)
		}
	}
	switch {
	case !found:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

func typesUID(uid string) types.UID { return types.UID(uid) }

// priority returns a pod's priority, 0 where the manifest has none.
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
