package persistentvolume

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// This file is pure: what the status of a claim says about the size of its volume on this node, and what it is to say.

// resize is what is to be done about the size of a volume.
type resize struct {
	// size is what the volume is to have, or already has.
	size resource.Quantity
	// call: the driver is to expand it.
	call bool
	// updated: the claim has the size already, since another node has expanded the volume before.
	updated bool
	// recovers: the claim's status follows each step, so that the user may withdraw a size that cannot be had.
	recovers bool
}

// notOnNodes is the annotation of a claim whose volume no node has to expand. kubelet and external-resizer: the same.
const notOnNodes = "volume.kubernetes.io/node-expansion-not-required"

// resizeOf returns what is to be done about a volume of this capacity that had a size on this node until now. The rules
// are the kubelet's (RecoverVolumeExpansionFailure): the controller that expands volumes decides by the claim's status
// when a node's turn is; a controller that knows no such status leaves the size of the PersistentVolume to go by.
func resizeOf(claim *corev1.PersistentVolumeClaim, capacity, had resource.Quantity) resize {
	status := &claim.Status
	state, size := status.AllocatedResourceStatuses[corev1.ResourceStorage], capacity
	r := resize{size: had, recovers: state != "" || status.AllocatedResources != nil}
	if capacity.Cmp(had) <= 0 {
		return r
	}
	if r.recovers {
		size = status.AllocatedResources[corev1.ResourceStorage]
	}
	has := status.Capacity[corev1.ResourceStorage]
	r.updated = has.Cmp(size) >= 0 && state == ""
	switch state {
	case corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress:
		r.call = !size.IsZero()
	case "":
		_, nowhere := claim.Annotations[notOnNodes]
		shared := slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) && !nowhere
		r.call = !r.recovers || r.updated && shared
	}
	if r.call || r.updated {
		r.size = size
	}
	return r
}

// mayResize reports whether a claim may ask for another size than its volume has on this node: then its
// PersistentVolume is read too.
func mayResize(claim *corev1.PersistentVolumeClaim, had resource.Quantity) bool {
	want := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return want.Cmp(had) > 0 || claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] != ""
}

// setResizing has a claim say how far the expansion on the node is.
func setResizing(claim *corev1.PersistentVolumeClaim, state corev1.ClaimResourceStatus) {
	if claim.Status.AllocatedResourceStatuses == nil {
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	}
	claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] = state
}

// setResized has a claim say that its volume has a size.
func setResized(claim *corev1.PersistentVolumeClaim, size resource.Quantity) {
	if claim.Status.Capacity == nil {
		claim.Status.Capacity = corev1.ResourceList{}
	}
	claim.Status.Capacity[corev1.ResourceStorage] = size
	delete(claim.Status.AllocatedResourceStatuses, corev1.ResourceStorage)
	if len(claim.Status.AllocatedResourceStatuses) == 0 {
		claim.Status.AllocatedResourceStatuses = nil
	}
	claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions,
		func(c corev1.PersistentVolumeClaimCondition) bool {
			switch c.Type {
			case corev1.PersistentVolumeClaimFileSystemResizePending, corev1.PersistentVolumeClaimResizing,
				corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
				return true
			}
			return false
		})
}

// setResizeError has a claim say why its volume was not expanded. The first reason stays, as with the kubelet.
func setResizeError(claim *corev1.PersistentVolumeClaim, now metav1.Time, why error) {
	c := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionTrue, LastTransitionTime: now,
		Message: fmt.Sprintf("failed to expand pvc with %v", why),
	}
	all := claim.Status.Conditions
	switch i := slices.IndexFunc(all, func(o corev1.PersistentVolumeClaimCondition) bool { return o.Type == c.Type }); {
	case i < 0:
		claim.Status.Conditions = append(all, c)
	case all[i].Status != c.Status:
		all[i] = c
	}
}

// claimPatch returns the strategic merge patch between two states of a claim; nil if they are equal. It fails if the
// claim has changed meanwhile.
func claimPatch(before, after *corev1.PersistentVolumeClaim) ([]byte, error) {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil, nil
	}
	without := before.DeepCopy()
	without.ResourceVersion = "" // so that the patch has it
	from, err := json.Marshal(without)
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(from, to, before)
}
