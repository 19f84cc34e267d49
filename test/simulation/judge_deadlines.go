package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of active deadlines: a pod ends when its deadline has passed, not before and not long after.

// admission is when a pod was admitted, as its deadline counts from it.
type admission struct {
	wall time.Time
	at   time.Duration
}

// wallMark is a time of day at an uptime.
type wallMark struct {
	at   time.Duration
	wall time.Time
}

// bookDeadlines books what deadlines count from.
func (j *judge) bookDeadlines(uid string, e *journaletv1.Event, rec *journaletv1.Record) {
	b := j.book
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AdmissionDecided:
		if k.AdmissionDecided.GetAdmitted() {
			at := j.uptimeOf(rec)
			if !j.rebuilding {
				// The disk may have taken a while since; what is longer is a clock that was set.
				at = max(at, j.sim.clock.uptime-2*time.Minute)
			}
			b.admitted[k.AdmissionDecided.GetUid()] = admission{rec.GetTime().AsTime(), at}
		}
	case *journaletv1.Event_PodTerminating:
		h := j.history(uid)
		switch passed := j.deadlinePassed(uid); {
		case j.rebuilding || b.ending[uid] || passed:
		case k.PodTerminating.GetReason() == pod.ReasonEvicted: // see evicted
		case k.PodTerminating.GetReason() == actors.ReasonUnsupported: // see bookRefused
		case k.PodTerminating.GetReason() == "DeadlineExceeded":
			j.broken(deadlineKept, uid, "it ends before its deadline of %v: %s after its admission", deadlinesOf(j, h),
				j.sim.clock.uptime-b.admitted[uid].at)
		case !j.podDone(h.manifest, uid):
			j.broken(stopCaused, uid, "its end begins without a cause")
		}
	}
}

// deadlinesOf returns the deadlines that the manifests of a pod have had.
func deadlinesOf(j *judge, h *podHistory) []time.Duration {
	var all []time.Duration
	for _, u := range h.updates {
		if m := j.sim.manifests.byDigest[u.digest]; m != nil && m.Spec.ActiveDeadlineSeconds != nil {
			all = append(all, time.Duration(*m.Spec.ActiveDeadlineSeconds)*time.Second)
		}
	}
	return all
}

// deadlinePassed reports whether a deadline of a pod has passed by the time of day, also for a while before the clock
// was set back, or by the uptime since its admission. A run of the agent waits for what is left by the time of day at
// its start, even if the clock is set back later.
func (j *judge) deadlinePassed(uid string) bool {
	a, ok := j.book.admitted[uid]
	if !ok {
		return false
	}
	took := max(j.sim.clock.uptime-a.at, j.sim.clock.Now().Sub(a.wall))
	for _, m := range j.book.setBack {
		if m.at >= a.at {
			took = max(took, m.wall.Sub(a.wall))
		}
	}
	for _, m := range j.book.starts {
		if m.at >= a.at {
			took = max(took, m.wall.Sub(a.wall)+j.sim.clock.uptime-m.at)
		}
	}
	return slices.ContainsFunc(deadlinesOf(j, j.history(uid)), func(d time.Duration) bool { return took >= d })
}

// endsAtDeadline: once faults have ended, nothing runs of a pod whose deadline has passed, after its grace period. If
// the clock was set back since its admission, the deadline may come later.
func (j *judge) endsAtDeadline(faultless time.Duration) {
	for _, o := range j.sim.world.objects {
		h, a := j.history(o.uid), j.book.admitted[o.uid]
		if h.manifest == nil || h.manifest.Spec.ActiveDeadlineSeconds == nil || !h.holdsShare || j.clockSet >= a.at {
			continue
		}
		due := max(a.at+time.Duration(*h.manifest.Spec.ActiveDeadlineSeconds)*time.Second, faultless)
		for _, c := range o.containers {
			if late := j.sim.clock.uptime - due - longestGrace(h.manifest); c.alive() && late > deadlineTolerance {
				j.broken(deadlineKept, o.uid, "%s runs %s after its pod's deadline and grace period", c.id, late)
			}
		}
	}
}

func longestGrace(m *corev1.Pod) time.Duration {
	grace := defaultGrace
	if g := m.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = max(2*time.Second, time.Duration(*g)*time.Second)
	}
	return grace
}
