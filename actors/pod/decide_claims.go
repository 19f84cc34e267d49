package pod

import (
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// claimsTimer ends the wait after a call for the pod's claims that failed.
const claimsTimer = "claims"

const (
	// firstClaimDelay and maxClaimDelay bound the wait after a call for claims that failed; it doubles between the two.
	// The kubelet tries again with each synchronization of the pod, after 10 s. The upper one is short beside the restart
	// of a driver: its pods are waiting.
	firstClaimDelay = time.Second
	maxClaimDelay   = 30 * time.Second
)

// prepareClaims reads the pod's claims and has their drivers prepare them: all of them, before the sandbox is created.
func (d *step) prepareClaims() {
	c := d.state.GetClaims()
	if d.claimsReady() || d.calling(messages.IsAboutClaims) {
		return
	}
	if d.claimsWait() {
		return
	}
	if !c.GetRead() {
		d.requestCall(&journaletv1.ReadClaims{
			Digest: d.state.GetPod().GetDigest(), Extended: d.extended().GetName(),
		})
		return
	}
	call := &journaletv1.PrepareClaims{}
	for _, podClaim := range c.GetClaims() {
		if podClaim.GetStage() == claimPrepared {
			continue
		}
		call.Claims = append(call.Claims, podClaim.GetClaim())
		// Earlier versions read claims without allocations, and named no claims in doubt.
		if podClaim.GetStage() == claimPreparing && podClaim.GetClaim().GetAllocation() != "" {
			call.InDoubt = append(call.InDoubt, podClaim.GetClaim().GetUid())
		}
	}
	d.requestCall(call)
}

// unprepareOrReport ends the termination of a pod that runs nothing any more, after its drivers have unprepared its
// claims: the control plane counts the devices as free as soon as it has the pod's terminal phase.
func (d *step) unprepareOrReport() {
	var due []*journaletv1.ResourceClaim
	for _, podClaim := range d.state.GetClaims().GetClaims() {
		if inUse(podClaim) {
			due = append(due, podClaim.GetClaim())
		}
	}
	if len(due) == 0 {
		d.reportTerminated()
		return
	}
	if d.calling(func(r *journaletv1.CallRequested) bool { return r.GetUnprepareClaims() != nil }) {
		return
	}
	if d.claimsWait() {
		return
	}
	d.requestCall(&journaletv1.UnprepareClaims{Claims: due})
}

// claimsWait reports whether the delay after a call for claims that failed is not over.
func (d *step) claimsWait() (waits bool) {
	c := d.state.GetClaims()
	if wait := d.left(c.GetFailedAt(), doubled(c.GetFailures(), firstClaimDelay, maxClaimDelay)); wait > 0 {
		d.timer(claimsTimer, wait)
		return true
	}
	d.clearTimer(claimsTimer)
	return false
}
