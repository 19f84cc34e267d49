package pod

import (
	"fmt"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// ReasonAttachLimit is the status reason of a pod with a volume that the node has no room for (kubelet:
// VolumeAttachmentLimitExceededReason in pkg/kubelet/volumemanager). Its owner creates another pod, which the scheduler
// places by the count that the CSINode has by then (ADR 099).
const ReasonAttachLimit = "VolumeAttachmentLimitExceeded"

// messageAttachLimit is the message of such a pod: the volumes that are not set up, and the volumes that could not be
// attached. The kubelet also names volumes that it has not read yet: here that list is always empty.
const messageAttachLimit = "Pod was rejected: Node has reached its volume attachment limit, rejecting pod. " +
	"unmounted volumes=%v, unattached volumes=%v, failed to process volumes=[]: context deadline exceeded"

// exceedsAttachLimit ends a pod with a volume that the node has no room for. ending reports whether it does.
func (d *step) exceedsAttachLimit() (ending bool) {
	var unattached, unmounted []string
	for _, e := range d.in.Events {
		for _, o := range e.Body.GetCallFinished().GetVolumes() {
			if o.GetAttachLimitExceeded() {
				unattached = append(unattached, o.GetName())
			}
		}
	}
	if len(unattached) == 0 {
		return false
	}
	for i := range d.manifest.Spec.Volumes {
		if name := d.manifest.Spec.Volumes[i].Name; d.state.Volumes[name].GetStage() != volumeSetUp {
			unmounted = append(unmounted, name)
		}
	}
	slices.Sort(unattached)
	slices.Sort(unmounted)
	d.decide(&journaletv1.PodTerminating{
		Reason: ReasonAttachLimit, Message: fmt.Sprintf(messageAttachLimit, unmounted, unattached), Failed: true,
	})
	return true
}
