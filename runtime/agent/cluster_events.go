package agent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/image"
)

// The events of this file follow from no record: nothing decides by what they report.

// emit emits an event of the Node. Without a cluster it does nothing.
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

// Events of objects that are left out may take a part of what the Node may have (runtime/cluster/events: 25, then one
// in 5 min): who creates such objects hides no other event of the Node.
const (
	leftOutBurst = 5
	leftOutEvery = 15 * time.Minute
)

// leftOut returns what reports an object that is left out of a list or watch. The log and a metric have each; the Node
// has an event of one whose name no pod and no driver has an error of.
func (a *agent) leftOut(c *cluster) func(client.LeftOut) {
	pace := rate.NewLimiter(rate.Every(leftOutEvery), leftOutBurst)
	return func(o client.LeftOut) {
		c.metrics.LeftOut(o.Resource)
		a.log.Error("an object of the API server is left out", "resource", o.Resource, "namespace", o.Namespace,
			"name", o.Name, "uid", o.UID, "reason", o.Reason)
		if o.One || o.Resource == client.Pods.Name || c.reports == nil || !pace.Allow() {
			return
		}
		c.reports.events.Emit(corev1.EventTypeWarning, "ObjectLeftOut", leftOutMessage(o))
	}
}

func leftOutMessage(o client.LeftOut) string {
	what := o.Resource
	switch {
	case o.Name != "":
		what += " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
	case o.Namespace != "":
		what += " of namespace " + o.Namespace
	}
	return fmt.Sprintf("%s: left out, as if it were not there: %s. Delete what is broken or too much, or write it again",
		what, o.Reason)
}

// updateRefused emits a warning about a pod whose update is not carried out.
func (r *reports) updateRefused(pod *journaletv1.PodRef, why string) {
	r.events.EmitPod(pod, corev1.EventTypeWarning, "PodUpdateUnsupported",
		"the update is not carried out, and the pod stays as it was: this node does not support "+why)
}

// sandboxWarning emits a warning about a pod whose sandbox is created.
func (r *reports) sandboxWarning(p *corev1.Pod, reason, message string) {
	r.events.EmitPod(&journaletv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name},
		corev1.EventTypeWarning, reason, message)
}

// podWarning emits a warning about a pod.
func (r *reports) podWarning(pod *journaletv1.PodRef, reason, message string) {
	r.events.EmitPod(pod, corev1.EventTypeWarning, reason, message)
}

// unmeasured emits the kubelet's events about a file system of images that cannot be measured. A single failure may
// only mean that the runtime is starting.
func (r *reports) unmeasured(err error, times int) {
	if errors.Is(err, image.ErrNoCapacity) {
		r.events.Emit(corev1.EventTypeWarning, "InvalidDiskCapacity", image.ErrNoCapacity.Error())
	}
	if times > 1 {
		r.events.Emit(corev1.EventTypeWarning, "ImageGCFailed", err.Error())
	}
}
