package pod

import (
	"cmp"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveClaimsRead folds what the API server has of the pod's claims. A pod whose sandbox was found, after a lost
// journal or in a kubelet's place, may have them prepared already.
func (a *Actor) evolveClaimsRead(e actors.Event, f *journaletv1.CallFinished) {
	if a.claimsFailed(e, f) {
		return
	}
	if a.state.Claims == nil {
		a.state.Claims = new(journaletv1.PodClaims)
	}
	c := a.state.Claims
	c.Read, c.Claims = true, nil
	for _, claim := range f.GetClaims() {
		podClaim := &journaletv1.PodClaim{Claim: claim, Stage: claimRead}
		if a.state.GetSandboxId() != "" && claim.GetAllocation() != "" { // earlier versions read none, and left it so
			podClaim.Stage = claimPreparing
		}
		c.Claims = append(c.Claims, podClaim)
	}
	if len(c.GetClaims()) == 0 {
		a.resetClaimFailures() // a driver that is not there stays the reason to wait longer
	}
}

// evolveInDoubt folds that drivers may prepare claims, or undo that, from now on.
func (a *Actor) evolveInDoubt(all []*journaletv1.ResourceClaim) {
	for _, claim := range all {
		if podClaim := a.claim(claim.GetUid()); podClaim != nil {
			podClaim.Stage = claimPreparing
		}
	}
}

// evolveClaimOutcomes folds what drivers have done. If a call fails and drivers did nothing for any claim, the claims
// are read again before the next try, since the API server may have others by then.
func (a *Actor) evolveClaimOutcomes(e actors.Event, f *journaletv1.CallFinished) {
	for _, o := range f.GetClaimOutcomes() {
		podClaim := a.claim(o.GetUid())
		if podClaim == nil {
			continue
		}
		podClaim.Stage = o.GetStage()
		if o.GetStage() == claimPrepared {
			podClaim.Devices, podClaim.BootId = o.GetDevices(), o.GetBootId()
		}
	}
	if !a.claimsFailed(e, f) {
		a.resetClaimFailures()
		return
	}
	if c := a.state.GetClaims(); c != nil && a.state.GetStage() == runningPod && !a.usesClaims() {
		c.Read, c.Claims = false, nil
	}
}

// claimsFailed folds the failure of a call for claims. It reports whether the call has failed.
func (a *Actor) claimsFailed(e actors.Event, f *journaletv1.CallFinished) bool {
	switch f.GetError() {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		return false
	case journaletv1.CallError_CALL_ERROR_WITHDRAWN:
		return true
	}
	if a.state.Claims == nil {
		a.state.Claims = new(journaletv1.PodClaims)
	}
	c := a.state.Claims
	c.Failures++
	c.FailedAt, c.Message = timestamppb.New(e.Time), cmp.Or(f.GetMessage(), f.GetError().String())
	return true
}

func (a *Actor) resetClaimFailures() {
	if c := a.state.GetClaims(); c != nil {
		c.Failures, c.FailedAt, c.Message = 0, nil, ""
	}
}

// evolveBoot folds the boot of the machine that the agent has started in. What drivers have prepared in another boot,
// such as devices and files in /run, may be gone: the drivers prepare it again.
func (a *Actor) evolveBoot(id string) {
	for _, podClaim := range a.state.GetClaims().GetClaims() {
		if podClaim.GetStage() == claimPrepared && podClaim.GetBootId() != id {
			podClaim.Stage = claimPreparing
		}
	}
}

// evolveClaimHealth folds what drivers report of the health of devices.
func (a *Actor) evolveClaimHealth(h *journaletv1.ClaimHealthObserved) {
	if c := a.state.GetClaims(); c != nil {
		c.Health = h.GetDevices()
	}
}

// claim returns a claim of the pod; nil if it has none with this UID.
func (a *Actor) claim(uid string) *journaletv1.PodClaim {
	for _, podClaim := range a.state.GetClaims().GetClaims() {
		if podClaim.GetClaim().GetUid() == uid {
			return podClaim
		}
	}
	return nil
}
