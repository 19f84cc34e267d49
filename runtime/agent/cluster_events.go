package agent

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/image"
)

// The events of this file follow from no record: nothing decides by what they report.

// emit emits an event of the Node. Without a cluster there is none.
func (a *agent) emit(kind, reason, message string) {
	if a.cluster != nil {
		a.cluster.reports.events.Emit(kind, reason, message)
	}
}

// podsListed reports a list of the node's pods; incomplete is why it may lack some, nil: it lacks none.
func (c *cluster) podsListed(incomplete error) {
	c.node.PodsListed(incomplete)
	if incomplete != nil {
		c.reports.events.Emit(corev1.EventTypeWarning, "PodListIncomplete", incomplete.Error())
	}
}

// sandboxWarning emits a warning about a pod whose sandbox is created.
func (r *reports) sandboxWarning(p *corev1.Pod, reason, message string) {
	r.events.EmitPod(&journaletv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name},
		corev1.EventTypeWarning, reason, message)
}

// unmeasured emits the kubelet's events about a file system of images that cannot be measured. One failure alone may be
// that of a runtime that starts.
func (r *reports) unmeasured(err error, times int) {
	if errors.Is(err, image.ErrNoCapacity) {
		r.events.Emit(corev1.EventTypeWarning, "InvalidDiskCapacity", image.ErrNoCapacity.Error())
	}
	if times > 1 {
		r.events.Emit(corev1.EventTypeWarning, "ImageGCFailed", err.Error())
	}
}
