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
		of := &journaletv1.PodClaim{Claim: claim, Stage: claimRead}
		if a.state.GetSandboxId() != "" && claim.GetAllocation() != "" { // earlier versions read none, and left it so
			of.Stage = claimPreparing
		}
		c.Claims = append(c.Claims, of)
	}
	if len(c.GetClaims()) == 0 {
		a.resetClaimFailures() // a driver that is not there stays the reason to wait longer
	}
}

// evolveInDoubt folds that drivers may prepare claims, or undo that, from now on.
func (a *Actor) evolveInDoubt(all []*journaletv1.ResourceClaim) {
	for _, claim := range all {
		if of := a.claim(claim.GetUid()); of != nil {
			of.Stage = claimPreparing
		}
	}
}

// evolveClaimOutcomes folds what drivers have done. Claims of which none did anything are read again before the next
// try, since the API server may have others by then.
func (a *Actor) evolveClaimOutcomes(e actors.Event, f *journaletv1.CallFinished) {
	for _, o := range f.GetClaimOutcomes() {
		of := a.claim(o.GetUid())
		if of == nil {
			continue
		}
		of.Stage = o.GetStage()
		if o.GetStage() == claimPrepared {
			of.Devices, of.BootId = o.GetDevices(), o.GetBootId()
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

// evolveBoot folds the boot of the machine in which the agent has started. What drivers have prepared in another one,
// such as devices and files in /run, may be gone: they prepare it again.
func (a *Actor) evolveBoot(id string) {
	for _, of := range a.state.GetClaims().GetClaims() {
		if of.GetStage() == claimPrepared && of.GetBootId() != id {
			of.Stage = claimPreparing
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
	for _, of := range a.state.GetClaims().GetClaims() {
		if of.GetClaim().GetUid() == uid {
			return of
		}
	}
	return nil
}
