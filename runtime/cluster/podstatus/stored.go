package podstatus

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Stored marks the pods whose status a stored record may have changed, and takes intents to delete.
func (d *Driver) Stored(rec *journaletv1.Record) {
	ref := messages.RefOf(rec.GetActor())
	if ref.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
		if o := rec.GetFact().GetNodeObserved(); o != nil {
			d.nodeObserved(o)
		}
		for _, e := range rec.GetStep().GetDecisions() {
			if k := e.GetPodForgotten(); k != nil {
				d.forget(k.GetUid())
				d.dropDelete(k.GetUid())
			}
			if k := e.GetDeviceHealthDecided(); k != nil {
				d.mark(k.GetUid(), false)
			}
			if k := e.GetPodUpdated(); k != nil { // a pod that has ended decides nothing, and observes the generation
				d.mark(k.GetPod().GetUid(), false)
			}
		}
		return
	}
	if e := rec.GetFact(); e != nil {
		if e.GetSessionStarted() == nil && e.GetSessionEnded() == nil {
			d.mark(ref.ID, exited(e.GetPodObserved()))
		}
		return
	}
	urgent := false
	for _, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_PodStatusChanged:
			urgent = d.urgent(ref.ID, k.PodStatusChanged) || urgent
		case *journaletv1.Event_PodTerminated:
			urgent = true
		case *journaletv1.Event_ApiDeleteRequested:
			d.Seed(k.ApiDeleteRequested)
			urgent = true
		}
	}
	d.mark(ref.ID, urgent)
}

// nodeObserved marks all pods if the addresses of their node are others than before.
func (d *Driver) nodeObserved(o *journaletv1.NodeObserved) {
	ips, _ := node.HostIPs(o)
	d.mu.Lock()
	same := slices.Equal(ips, d.hostIPs)
	d.hostIPs = ips
	d.mu.Unlock()
	if same {
		return
	}
	for _, uid := range d.opts.Pods() {
		d.mark(uid, false)
	}
}

// dropDelete drops the intent to delete a pod that is gone: nobody waits for its outcome.
func (d *Driver) dropDelete(uid string) {
	d.mu.Lock()
	delete(d.deletes, uid)
	d.mu.Unlock()
}

func (d *Driver) mark(uid string, urgent bool) {
	if urgent {
		d.queue.add(uid, true, 0)
		return
	}
	d.queue.add(uid, false, gather)
}

// exited reports whether an observation has a container that has ended.
func exited(o *journaletv1.PodObserved) bool {
	return slices.ContainsFunc(o.GetContainers(), func(c *journaletv1.ContainerObservation) bool {
		return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED
	})
}

// urgent reports whether a change is one of phase or readiness.
func (d *Driver) urgent(uid string, c *journaletv1.PodStatusChanged) bool {
	d.mu.Lock()
	was := d.phases[uid]
	d.phases[uid] = c.GetPhase()
	d.mu.Unlock()
	if c.GetPhase() != was && c.GetPhase() != journaletv1.PodPhase_POD_PHASE_PENDING {
		return true
	}
	return slices.ContainsFunc(c.GetConditions(), func(cond *journaletv1.Condition) bool {
		return cond.GetType() == string(corev1.PodReady) && was != journaletv1.PodPhase_POD_PHASE_UNSPECIFIED
	})
}

// Seed adds an intent to delete that has no outcome: of a stored record, or of the fold at the start.
func (d *Driver) Seed(intent *journaletv1.ApiDeleteRequested) {
	d.mu.Lock()
	d.deletes[intent.GetUid()] = intent
	d.mu.Unlock()
	d.queue.add(intent.GetUid(), true, 0)
}
