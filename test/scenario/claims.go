package scenario

import (
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// addClaims adds claims of these names to a pod, which its first container has.
func addClaims(pod *corev1.Pod, names []string) {
	for _, name := range names {
		claim := corev1.PodResourceClaim{Name: name, ResourceClaimName: &name}
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, claim)
		c := &pod.Spec.Containers[0].Resources
		c.Claims = append(c.Claims, corev1.ResourceClaim{Name: name})
	}
}

// readClaims answers as the API server does: each claim has its name as UID, and is of one driver.
func readClaims(m *corev1.Pod, out *journaletv1.CallFinished) {
	for _, c := range m.Spec.ResourceClaims {
		out.Claims = append(out.Claims, &journaletv1.ResourceClaim{
			PodClaims: []string{c.Name}, Namespace: m.Namespace, Name: *c.ResourceClaimName, Uid: *c.ResourceClaimName,
			Prepare: []string{"driver"}, Unprepare: []string{"driver"}, Allocation: "1",
		})
	}
}

// prepareClaims prepares claims of a pod.
func (w *world) prepareClaims(o *objects, all []*journaletv1.ResourceClaim, out *journaletv1.CallFinished) {
	for _, c := range all {
		o.claims[c.GetUid()] = w.boot
		out.ClaimOutcomes = append(out.ClaimOutcomes, &journaletv1.ClaimOutcome{
			Uid: c.GetUid(), Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARED, BootId: w.boot,
			Devices: []*journaletv1.ClaimDevice{{Driver: "driver", CdiDevices: []string{"driver/claim=" + c.GetUid()}}},
		})
	}
}

// unprepareClaims undoes prepareClaims. It is wrong while a container of the pod runs.
func (w *world) unprepareClaims(
	o *objects, alias string, all []*journaletv1.ResourceClaim, out *journaletv1.CallFinished,
) {
	if slices.ContainsFunc(o.containers, alive) {
		w.violation("%s: its claims are unprepared while a container runs", alias)
	}
	for _, c := range all {
		delete(o.claims, c.GetUid())
		out.ClaimOutcomes = append(out.ClaimOutcomes, &journaletv1.ClaimOutcome{
			Uid: c.GetUid(), Stage: journaletv1.ClaimStage_CLAIM_STAGE_UNPREPARED,
		})
	}
}

// checkClaims records a violation if a sandbox or a container is created before the pod's claims are prepared in this
// boot, or a container without their devices.
func (w *world) checkClaims(o *objects, alias string, m *corev1.Pod, start *journaletv1.StartContainer) {
	for _, c := range m.Spec.ResourceClaims {
		if o.claims[*c.ResourceClaimName] != w.boot {
			w.violation("%s: something is created before claim %s is prepared", alias, c.Name)
		}
		if start != nil && start.GetContainer() == m.Spec.Containers[0].Name &&
			!slices.Contains(start.GetClaimDevices(), "driver/claim="+*c.ResourceClaimName) {
			w.violation("%s: container %s starts without the devices of claim %s", alias, start.GetContainer(), c.Name)
		}
	}
}

// checkNoClaim records a violation if a driver has prepared claims of a pod that has ended.
func (w *world) checkNoClaim(o *objects, alias string) {
	if len(o.claims) > 0 {
		w.violation("%s: the pod has ended, and its claims are still prepared", alias)
	}
}

// forgetClaims leaves out what is prepared: after a lost journal nobody unprepares the claims of a pod that is gone
// (ADR 067).
func (w *world) forgetClaims() {
	for _, o := range w.pods {
		clear(o.claims)
	}
}

// failClaims fails a call for claims: with stage=read no driver was called, otherwise one may have done its part.
func (s *Scenario) failClaims(d *datadriven.TestData, c *journaletv1.Call) error {
	r := c.GetRequest()
	out := &journaletv1.CallFinished{
		IntentId: c.GetIntentId(), Requester: c.GetRequester(), Error: journaletv1.CallError_CALL_ERROR_CLAIM,
		Message: arg(d, "message", "it failed"), Retryable: true,
	}
	stage := journaletv1.ClaimStage(journaletv1.ClaimStage_value["CLAIM_STAGE_"+strings.ToUpper(arg(d, "stage", ""))])
	for _, claim := range append(r.GetPrepareClaims().GetClaims(), r.GetUnprepareClaims().GetClaims()...) {
		if stage == journaletv1.ClaimStage_CLAIM_STAGE_PREPARING {
			s.g.world.objectsOf(r.GetPodUid()).claims[claim.GetUid()] = "half"
		}
		out.ClaimOutcomes = append(out.ClaimOutcomes, &journaletv1.ClaimOutcome{
			Uid: claim.GetUid(), Stage: stage, Message: out.GetMessage(),
		})
	}
	return s.moment(func() error { return s.g.finish(out) })
}

// claimsText names the claims of a call, with a "?" if they may be prepared already.
func claimsText(all []*journaletv1.ResourceClaim, inDoubt []string) string {
	text := ""
	for _, c := range all {
		text += " " + c.GetName()
		if slices.Contains(inDoubt, c.GetUid()) {
			text += "?"
		}
	}
	return text
}
