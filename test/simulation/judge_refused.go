package simulation

import (
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What the agent refuses, and what another one has started (ADR 112).
const leftAlone = "what is refused, and runs, is left alone"

// inspectedWithin is how long a pod that its status shows running waits to be inspected before it is rejected.
const inspectedWithin = time.Minute

// bookRefused judges what is decided on pods of the API server that the agent does not carry out.
func (j *judge) bookRefused(author string, rec *journaletv1.Record, e *journaletv1.Event) {
	if !j.sim.config.refused {
		return
	}
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_CallRequested:
		j.requestedOfRefused(author, k.CallRequested)
	case *journaletv1.Event_ProbesSet:
		if h := j.history(author); isUnsupported(h.manifest) && h.endsAt < 0 && len(k.ProbesSet.GetKinds()) > 0 {
			j.broken(leftAlone, author, "%s is probed", k.ProbesSet.GetContainer())
		}
	case *journaletv1.Event_PodTerminating:
		if k.PodTerminating.GetReason() == actors.ReasonUnsupported {
			j.nothingRuns(author, "it fails for %s", k.PodTerminating.GetMessage())
		}
	case *journaletv1.Event_AdmissionDecided:
		uid := k.AdmissionDecided.GetUid()
		seen := j.uptimeOf(rec)-j.runSince < inspectedWithin || j.shownRunning(uid)
		if !k.AdmissionDecided.GetAdmitted() && k.AdmissionDecided.GetReason() == actors.ReasonUnsupported &&
			j.sim.refusedRuns[uid] && seen {
			j.nothingRuns(uid, "it is rejected, %s after the start", j.uptimeOf(rec)-j.runSince)
		}
	}
}

// requestedOfRefused: nothing of such a pod is started or set up, and nothing ends before the pod does.
func (j *judge) requestedOfRefused(uid string, call *journaletv1.CallRequested) {
	h := j.history(uid)
	if !isUnsupported(h.manifest) {
		return
	}
	switch {
	case call.GetRunSandbox() != nil, call.GetStartContainer() != nil, call.GetSetUpVolumes() != nil:
		j.broken(leftAlone, uid, "it requests %v", call)
	case h.rejectedAs == h.incarnation && h.rejectedAs != 0: // the node has no room for it, say
	case call.GetStopContainer() != nil && h.endsAt < 0:
		j.broken(leftAlone, uid, "it does not end, and requests %v", call)
	}
}

// shownRunning reports whether an observation of this run shows a container of a pod that runs.
func (j *judge) shownRunning(uid string) bool {
	for id := range j.history(uid).shownRun {
		if c := j.sim.world.container(id); c != nil && c.alive() {
			return true
		}
	}
	return false
}

// nothingRuns: no container of a pod runs.
func (j *judge) nothingRuns(uid, format string, args ...any) {
	for _, c := range j.sim.world.objectsOf(uid).containers {
		if c.alive() {
			j.broken(leftAlone, uid, format+", and %s runs", append(args, c.id)...)
			return
		}
	}
}

// keptOutFor reports whether an orphan has the name of a pod that only a problem of its file keeps out.
func (j *judge) keptOutFor(uid string) bool {
	s, sandboxes := j.sim, j.sim.world.objectsOf(uid).sandboxes
	if len(sandboxes) == 0 || !s.keptOut(sandboxes[0].pod) ||
		s.directory.changedAt >= j.mustKnow(messages.FileSource) {
		return false
	}
	// Another pod of its name would have it, from a source or as one that has not finished yet.
	sameName := func(other string) bool { return other != uid && s.manifests.names[other] == sandboxes[0].pod.Name }
	for other := range s.fromFiles() {
		if sameName(other) {
			return false
		}
	}
	for other, h := range j.pods {
		if sameName(other) && !h.gone && h.source != "" {
			return false
		}
	}
	return true
}
