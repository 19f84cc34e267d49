package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// The stages of a claim, short.
const (
	claimRead      = journaletv1.ClaimStage_CLAIM_STAGE_READ
	claimPreparing = journaletv1.ClaimStage_CLAIM_STAGE_PREPARING
	claimPrepared  = journaletv1.ClaimStage_CLAIM_STAGE_PREPARED
)

// claimsReady reports whether drivers have prepared all claims of the pod.
func (a *Actor) claimsReady() bool {
	c := a.state.GetClaims()
	if len(a.manifest.Spec.ResourceClaims) == 0 && a.extended().GetName() == "" {
		return true
	}
	return c.GetRead() &&
		!slices.ContainsFunc(c.GetClaims(), func(podClaim *journaletv1.PodClaim) bool {
			return podClaim.GetStage() != claimPrepared
		})
}

// extended returns the claim that stands for extended resources of the pod.
func (a *Actor) extended() *journaletv1.ExtendedClaim {
	return a.state.GetPod().GetApi().GetExtendedClaim()
}

// inUse reports whether a driver may have prepared a claim for the pod.
func inUse(podClaim *journaletv1.PodClaim) bool {
	return podClaim.GetStage() == claimPreparing || podClaim.GetStage() == claimPrepared
}

// usesClaims reports whether a driver may have prepared a claim for the pod.
func (a *Actor) usesClaims() bool { return slices.ContainsFunc(a.state.GetClaims().GetClaims(), inUse) }

// ClaimsOf returns the claims of a container that drivers have prepared, in the order of the pod's. To be read only.
func (a *Actor) ClaimsOf(c *corev1.Container) []*journaletv1.PodClaim {
	var all []*journaletv1.PodClaim
	for _, podClaim := range a.state.GetClaims().GetClaims() {
		wanted := podClaim.GetClaim().GetExtended() && slices.ContainsFunc(a.extended().GetRequests(),
			func(r *journaletv1.ExtendedRequest) bool { return r.GetContainer() == c.Name }) ||
			slices.ContainsFunc(c.Resources.Claims, func(want corev1.ResourceClaim) bool {
				return slices.Contains(podClaim.GetClaim().GetPodClaims(), want.Name)
			})
		if podClaim.GetStage() == claimPrepared && wanted {
			all = append(all, podClaim)
		}
	}
	return all
}

// isFor reports whether a device is for a request; empty: for any. As in the kubelet, a device without requests is for
// all of them.
func isFor(device *journaletv1.ClaimDevice, request string) bool {
	return request == "" || len(device.GetRequests()) == 0 || slices.Contains(device.GetRequests(), request)
}

// claimDevices returns the CDI devices of a container, each once, in the order of its claims; the devices for extended
// resources come last.
func (a *Actor) claimDevices(c *corev1.Container) []string {
	var all []string
	add := func(request string, has func(*journaletv1.ResourceClaim) bool) {
		for _, podClaim := range a.state.GetClaims().GetClaims() {
			for _, device := range podClaim.GetDevices() {
				if !has(podClaim.GetClaim()) || !isFor(device, request) {
					continue
				}
				for _, name := range device.GetCdiDevices() {
					if !slices.Contains(all, name) {
						all = append(all, name)
					}
				}
			}
		}
	}
	for _, want := range c.Resources.Claims {
		add(want.Request, func(claim *journaletv1.ResourceClaim) bool {
			return slices.Contains(claim.GetPodClaims(), want.Name)
		})
	}
	for _, r := range a.extended().GetRequests() {
		if r.GetContainer() == c.Name {
			add(r.GetRequest(), (*journaletv1.ResourceClaim).GetExtended)
		}
	}
	return all
}

// ClaimProblem returns why the claims of a running pod are not prepared, in the kubelet's words; "" if they are, or
// nothing is wrong yet.
func (a *Actor) ClaimProblem() string {
	if m := a.state.GetClaims().GetMessage(); m != "" && a.state.GetStage() == runningPod {
		return "Failed to prepare dynamic resources: " + m
	}
	return ""
}
