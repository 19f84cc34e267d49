package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of stops: why an instance may be stopped, by the manifests and by what the world did.

// stopped judges a call that ends a running instance: a stop, or the stop or removal of its sandbox.
func (j *judge) stopped(c *container, call string) {
	x := j.book.byID[c.id]
	if !c.alive() || j.unrecorded(x) || x.stopJudged {
		return
	}
	x.stopJudged = true
	j.othersStopped(c, call)
	j.caused(x, call)
	j.hookBeforeStop(x, call)
}

// unrecorded reports whether the agent cannot know an instance as its own: the record of its creation was lost, or a
// runtime completed its start for a client that was gone.
func (j *judge) unrecorded(x *instance) bool {
	lost := j.lostIntents[x.intent] && x.createdAt <= j.lostRecordsAt // another request may have its id since
	return j.intents[x.intent] == nil || lost || x.startedLate && x.shownBy == 0
}

// caused: an instance is ended only for a cause.
func (j *judge) caused(x *instance, call string) {
	h := j.history(x.uid)
	switch {
	case h.gone, j.book.ending[x.uid], x.state == unknown, x.startLost, x.unhealthy, x.postStartFailed:
	case j.deadlinePassed(x.uid), j.redefined(x), j.replaced(x), j.restartsAll(x.uid), j.podDone(h.manifest, x.uid):
	default:
		j.broken(stopCaused, x.uid, "%s ends %s without a cause", call, x.id)
	}
}

// bookEnding books that the source or the node ends a pod.
func (j *judge) bookEnding(e *journaletv1.Event) {
	b := j.book
	var victims []string
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodUpdated:
		uid := k.PodUpdated.GetPod().GetUid()
		switch k.PodUpdated.GetOperation() {
		case journaletv1.PodOperation_POD_OPERATION_ADD:
			if delete(b.ending, uid); k.PodUpdated.GetPod().GetApi().GetDeleted() {
				b.ending[uid] = true
			}
		case journaletv1.PodOperation_POD_OPERATION_REMOVE:
			b.ending[uid] = true
		default:
			h, m := j.history(uid), j.sim.manifests.byDigest[k.PodUpdated.GetPod().GetDigest()]
			b.ending[uid] = b.ending[uid] || h.manifest != m || k.PodUpdated.GetPod().GetApi().GetDeleted()
		}
	case *journaletv1.Event_StorageExceeded:
		b.ending[k.StorageExceeded.GetUid()] = true
	case *journaletv1.Event_AdmissionPendingPreemption:
		victims = k.AdmissionPendingPreemption.GetVictims()
	case *journaletv1.Event_ResizePendingPreemption:
		victims = k.ResizePendingPreemption.GetVictims()
	}
	for _, uid := range victims {
		b.ending[uid] = true
	}
}

// redefined reports whether a manifest after the manifest of an instance's creation has another image for it, lacks it,
// or has other resources that it gets by a restart.
func (j *judge) redefined(x *instance) bool {
	d, err := messages.ParseDecisionID(x.intent)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(j.history(x.uid).updates, func(u admissionRequest) bool {
		m := j.sim.manifests.byDigest[u.digest]
		spec := findSpec(m, x.name)
		return u.seq > d.Cause && (spec == nil || spec.Image != x.image) ||
			spec != nil && restartsToResize(x.container, m, spec)
	})
}

// restartsToResize reports whether a container gets the resources of a manifest m by a restart: by its resizePolicy, or
// because a limit goes away.
func restartsToResize(c *container, m *corev1.Pod, to *corev1.Container) bool {
	was, is := ownOrPods(c.manifest, c.spec), ownOrPods(m, to)
	gone := slices.ContainsFunc([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory},
		func(name corev1.ResourceName) bool {
			_, had := was.Limits[name]
			_, has := is.Limits[name]
			return had && !has
		})
	return gone || resizedByRestart(c, m, to)
}

// replaced reports whether a newer instance of the same container exists, or a newer sandbox of the pod.
func (j *judge) replaced(x *instance) bool {
	o := j.sim.world.objectsOf(x.uid)
	for _, other := range j.book.ofPod[x.uid] {
		if other.name == x.name && other.n > x.n && other.endedAt == 0 {
			return true
		}
	}
	return len(o.sandboxes) > 0 && o.sandboxes[len(o.sandboxes)-1].id != x.sandbox
}

// restartsAll reports whether a container of a pod ended with a code, and its rule restarts all containers for this
// code.
func (j *judge) restartsAll(uid string) bool {
	demands := func(spec *corev1.Container, code int32) bool {
		return spec != nil && ruleFor(spec, code) == corev1.ContainerRestartRuleActionRestartAllContainers
	}
	return slices.ContainsFunc(j.book.ofPod[uid], func(x *instance) bool {
		// An instance that was taken over has the rules of the present manifest.
		return x.n > j.book.since[uid] && x.state == exited &&
			(demands(x.spec, x.code) || demands(findSpec(j.history(uid).manifest, x.name), x.code))
	})
}

// podDone reports whether a pod may have nothing left to do: each main container has ended and may stay so, or an init
// container has failed for good.
func (j *judge) podDone(m *corev1.Pod, uid string) bool {
	if m == nil {
		return true
	}
	for i := range m.Spec.InitContainers {
		c := &m.Spec.InitContainers[i]
		if x := j.newest(uid, c.Name); x != nil && !isSidecar(c) && neverRestarts(m, c) && ended(x) &&
			(x.code != 0 || x.vanished || x.startLost) {
			return true
		}
	}
	return !slices.ContainsFunc(m.Spec.Containers, func(c corev1.Container) bool {
		x := j.newest(uid, c.Name)
		return x == nil || !ended(x) || !mayStayEnded(m, &c)
	})
}

func ended(x *instance) bool { return x.vanished || x.startLost || x.state == exited }

// mayStayEnded reports whether a container may end for good.
func mayStayEnded(m *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
	}
	return m.Spec.RestartPolicy != corev1.RestartPolicyAlways
}

// newest returns the newest instance of a container, nil for none.
func (j *judge) newest(uid, name string) *instance {
	all := j.book.instancesOf(uid, name)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}
