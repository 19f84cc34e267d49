package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// devicesReady reports whether the plugins of a container's devices have answered.
func (a *Actor) devicesReady(container string) bool {
	for _, alloc := range a.state.GetDevices() {
		if alloc.GetDevices().GetContainer() == container && alloc.GetDevices().GetAnswer() == nil {
			return false
		}
	}
	return true
}

// devicesOf returns the devices of a container, with what their plugins want for it.
func (a *Actor) devicesOf(container string) []*journaletv1.ContainerDevices {
	var all []*journaletv1.ContainerDevices
	for _, alloc := range a.state.GetDevices() {
		if alloc.GetDevices().GetContainer() == container {
			all = append(all, alloc.GetDevices())
		}
	}
	return all
}

// deviceProblem returns why a container waits for its devices; "" if it does not, or not for long.
func (a *Actor) deviceProblem(container string) string {
	for _, alloc := range a.state.GetDevices() {
		if alloc.GetDevices().GetContainer() == container && alloc.GetDevices().GetAnswer() == nil &&
			alloc.GetMessage() != "" {
			return "device plugin of " + alloc.GetDevices().GetResource() + ": " + alloc.GetMessage()
		}
	}
	return ""
}

var deviceHealth = map[journaletv1.DeviceHealth]corev1.ResourceHealthStatus{
	journaletv1.DeviceHealth_DEVICE_HEALTH_HEALTHY:   corev1.ResourceHealthStatusHealthy,
	journaletv1.DeviceHealth_DEVICE_HEALTH_UNHEALTHY: corev1.ResourceHealthStatusUnhealthy,
	journaletv1.DeviceHealth_DEVICE_HEALTH_UNKNOWN:   corev1.ResourceHealthStatusUnknown,
}

// deviceStatus returns the health of a container's devices (KEP-4680), in the order of their resources.
func (a *Actor) deviceStatus(container string) []corev1.ResourceStatus {
	var all []corev1.ResourceStatus
	for _, alloc := range a.state.GetDevices() {
		if alloc.GetDevices().GetContainer() != container {
			continue
		}
		st := corev1.ResourceStatus{Name: corev1.ResourceName(alloc.GetDevices().GetResource())}
		for _, id := range alloc.GetDevices().GetIds() {
			health := corev1.ResourceHealthStatusHealthy
			for _, d := range alloc.GetUnhealthy() {
				if d.GetId() == id {
					health = deviceHealth[d.GetHealth()]
				}
			}
			st.Resources = append(st.Resources, corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: health})
		}
		all = append(all, st)
	}
	return all
}

// claimStatus returns the health of the devices that a container has by its claims (KEP-4680), in the order of its
// claims; the kubelet's names and ids. The health of a device that no driver reports is unknown.
func (a *Actor) claimStatus(c *corev1.Container) []corev1.ResourceStatus {
	var all []corev1.ResourceStatus
	for _, want := range c.Resources.Claims {
		st := corev1.ResourceStatus{Name: corev1.ResourceName("claim:" + want.Name)}
		if want.Request != "" {
			st.Name += corev1.ResourceName("/" + want.Request)
		}
		for _, podClaim := range a.state.GetClaims().GetClaims() {
			if !inUse(podClaim) || !slices.Contains(podClaim.GetClaim().GetPodClaims(), want.Name) {
				continue
			}
			for _, device := range podClaim.GetDevices() {
				h := a.claimHealth(device)
				if isFor(device, want.Request) && !slices.ContainsFunc(st.Resources, func(o corev1.ResourceHealth) bool {
					return o.ResourceID == h.ResourceID
				}) {
					st.Resources = append(st.Resources, h)
				}
			}
		}
		if len(st.Resources) > 0 {
			all = append(all, st)
		}
	}
	return all
}

// claimHealth returns the health of a device of a claim. Its id is its first CDI device, if it has one.
func (a *Actor) claimHealth(device *journaletv1.ClaimDevice) corev1.ResourceHealth {
	id := device.GetDriver() + "/" + device.GetPool() + "/" + device.GetDevice()
	if cdi := device.GetCdiDevices(); len(cdi) > 0 {
		id = cdi[0]
	}
	out := corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: corev1.ResourceHealthStatusUnknown}
	for _, h := range a.state.GetClaims().GetHealth() {
		if h.GetDriver() == device.GetDriver() && h.GetPool() == device.GetPool() && h.GetDevice() == device.GetDevice() {
			out.Health = deviceHealth[h.GetHealth()]
			if m := h.GetMessage(); m != "" {
				out.Message = &m
			}
		}
	}
	return out
}
