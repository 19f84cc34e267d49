package why

import (
	"fmt"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
	"github.com/journalet/journalet/runtime/history/describe"
)

// endedAs returns the event that began the end of the pod, nil if it is too far back.
func (s *subject) endedAs() *Event {
	return s.log.last(s.at+1, 0, func(e *Event) bool {
		u := e.Body.GetPodUpdated()
		switch {
		case e.Body.GetOrphanConfirmed().GetUid() == s.uid, e.is("pod_terminating"):
			return true
		case e.Body.GetPodEvictionDecided().GetUid() == s.uid: // a later one only shortens the grace period
			return s.state.GetEndedByNode() && e.Time.Equal(s.state.GetTerminatingAt().AsTime())
		case u.GetPod().GetUid() == s.uid && u.GetOperation() != journaletv1.PodOperation_POD_OPERATION_ADD:
			return s.state.GetRemoved()
		}
		return slices.Contains(e.Body.GetAdmissionPendingPreemption().GetVictims(), s.uid) ||
			slices.Contains(e.Body.GetResizePendingPreemption().GetVictims(), s.uid)
	})
}

// ending adds what ended the pod, and returns it in words.
func (s *subject) ending(a *Answer) string {
	e := s.endedAs()
	s.addOrigin(a, e)
	s.add(a, e, "")
	again := s.log.last(s.at+1, s.state.GetIncarnation(), func(e *Event) bool {
		return e.Body.GetPodReadmitted().GetUid() == s.uid
	})
	s.addOrigin(a, again)
	s.add(a, again, "")
	switch {
	case s.state.GetPreempted():
		return s.preempted(a, e)
	case s.state.GetReason() != "":
		return text(s.state.GetReason(), s.state.GetMessage())
	case s.state.GetOrphan():
		return "no source names it"
	case e != nil && e.Body.GetPodUpdated().GetOperation() == journaletv1.PodOperation_POD_OPERATION_UPDATE:
		return "its manifest was replaced by one that is no update of it"
	case s.state.GetRemoved():
		return "it was removed from source " + s.state.GetSource()
	}
	return "its main containers have ended for good"
}

// preempted returns for whom a pod was preempted.
func (s *subject) preempted(a *Answer, e *Event) string {
	by := s.state.GetPreemptedFor()
	why := fmt.Sprintf("it was preempted for pod %s/%s (UID %s)", by.GetNamespace(), by.GetName(), by.GetUid())
	if e == nil {
		return why
	}
	request, _, err := s.handled(*e)
	if err != nil || request == nil {
		return why
	}
	q := request.Body.GetAdmissionRequested()
	if q == nil {
		return why
	}
	s.add(a, request, fmt.Sprintf("requested admission of pod %s/%s: priority %d, cpu %dm, memory %s", q.GetNamespace(),
		q.GetName(), q.GetPriority(), q.GetDemand().GetMilliCpu(), describe.Size(q.GetDemand().GetMemoryBytes())))
	return fmt.Sprintf("%s, which has priority %d", why, q.GetPriority())
}

// terminating explains a pod that ends or is being cleaned up.
func (s *subject) terminating(a *Answer) {
	a.State = "Terminating"
	cleaned := ""
	alive := func(c *journaletv1.ContainerObservation) bool {
		return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING
	}
	if s.state.GetStage() != journaletv1.PodStage_POD_STAGE_TERMINATING &&
		!slices.ContainsFunc(s.state.GetObserved().GetContainers(), alive) {
		cleaned = "; its containers have ended, and it is being cleaned up"
	}
	e := s.endedAs()
	switch {
	case s.state.GetTerminatingAt() != nil:
		a.since(s.state.GetTerminatingAt().AsTime(), e)
	case e != nil:
		a.since(e.Time, e)
	}
	why := s.ending(a) + cleaned
	a.Because = ""
	s.stops(a, e)
	s.waits(a)
	if waits := a.Because; waits != "" {
		a.Because = why + "; " + waits
	} else {
		a.Because = why
	}
	for _, name := range s.containers {
		cur := s.state.GetContainers()[name].GetCurrent()
		if cur.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED {
			s.add(a, s.exitEvent(cur.GetId()), fmt.Sprintf("container %s %s", name, exitText(cur)))
		}
	}
}

// maxStops bounds the calls that stop containers in an answer: the newest ones.
const maxStops = 8

// stops adds the calls that have stopped the containers of a pod that ends, and which of them failed.
func (s *subject) stops(a *Answer, since *Event) {
	if since == nil {
		return
	}
	n := 0
	s.log.last(s.at+1, since.Seq, func(e *Event) bool {
		hook, f := e.call().GetRunHook(), e.Body.GetCallFinished()
		req := s.requestOf(f.GetIntentId(), e.Seq).call()
		if e.call().GetStopContainer() != nil || hook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP ||
			kind.Failed(f.GetError()) && (req.GetStopContainer() != nil || req.GetRunHook() != nil) {
			s.add(a, e, "")
			n++
		}
		return n == maxStops
	})
}

// waits adds what a pod that is not admitted yet, or that ends, waits for.
func (s *subject) waits(a *Answer) {
	failed := s.failedCall(func(c *journaletv1.CallRequested) bool {
		return c.GetStopContainer() != nil || c.GetStopSandbox() != nil || c.GetRemoveSandbox() != nil ||
			c.GetRemoveContainer() != nil || c.GetCleanPod() != nil
	})
	for _, w := range s.actor.Waits() {
		if w.Call == nil {
			a.becauseSince(w.Since, "it waits for %s", w.For)
			continue
		}
		what := "it waits for a call"
		if n := s.state.GetCleanFailures(); failed != nil && n > 0 {
			what += fmt.Sprintf(", after %s", describe.Count(int(n), "failure"))
		}
		s.call(a, w.IntentID, w.Since, what+": "+describe.Call(w.Call))
	}
	if failed != nil && s.state.GetCleanFailures() > 0 {
		s.add(a, failed, "")
	}
	for _, name := range []string{"tear down", claimsTimer} {
		if t, _ := s.timer(name); t != nil {
			a.until(firesAt(t), "next attempt")
		}
	}
}

// ended explains a pod that has ended and that its source still names.
func (s *subject) ended(a *Answer) {
	a.State = describe.Enum(s.state.GetPhase().String(), "POD_PHASE_")
	terminated := s.log.last(s.at+1, 0, func(e *Event) bool { return e.Body.GetPodTerminated().GetUid() == s.uid })
	if s.state.GetRejected() {
		decided := s.admission()
		if decided != nil {
			a.since(decided.Time, decided)
			a.because("the node rejected it: %s", text(decided.Body.GetAdmissionDecided().GetReason(),
				decided.Body.GetAdmissionDecided().GetMessage()))
		}
		s.addOrigin(a, decided)
		s.add(a, decided, "")
		a.because("the node rejected it: %s", text(s.state.GetReason(), s.state.GetMessage()))
		return
	}
	if terminated != nil {
		a.since(terminated.Time, terminated)
	}
	if s.state.GetReason() != "" || s.state.GetPreempted() {
		a.because("%s", s.ending(a))
	}
	for _, name := range s.containers {
		cur := s.state.GetContainers()[name].GetCurrent()
		if cur.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED {
			s.exit(a, cur)
		}
	}
	a.because("%s", s.ends())
	s.add(a, terminated, "")
	s.busy(a)
}

// busy explains which volumes of a pod that has ended cannot be torn down, and what holds them.
func (s *subject) busy(a *Answer) {
	failed := s.failedCall(func(c *journaletv1.CallRequested) bool { return c.GetCleanPod() != nil })
	for _, w := range s.actor.Waits() {
		if failed != nil && w.Call == nil && strings.HasPrefix(w.For, "volume ") {
			a.Because += "; it waits for " + w.For
			s.add(a, failed, "")
		}
	}
}

// ends returns which containers ended a pod: the failed main containers, else failed init containers, else the main
// containers that succeeded.
func (s *subject) ends() string {
	var parts []string
	list := func(init, failed bool) {
		for _, name := range s.containers {
			cur := s.state.GetContainers()[name].GetCurrent()
			spec := s.spec(name)
			sidecar := s.inits[name] && spec != nil && spec.RestartPolicy != nil
			if s.ephemeral(name) {
				continue
			}
			if len(parts) < maxEnds && s.inits[name] == init && !sidecar && (cur.GetExitCode() != 0) == failed &&
				cur.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED {
				parts = append(parts, "container "+name+" "+exitText(cur))
			}
		}
	}
	for _, group := range []struct{ init, failed bool }{{false, true}, {true, true}, {false, false}} {
		if list(group.init, group.failed); len(parts) > 0 {
			break
		}
	}
	if len(parts) == 0 {
		return "none of its containers has run"
	}
	return strings.Join(parts, "; ")
}

// maxEnds bounds the containers that a sentence about a pod's end names.
const maxEnds = 3

// finished explains a pod that has left nothing on the node.
func (s *subject) finished(a *Answer) {
	a.State = "gone"
	done := s.log.last(s.at+1, 0, func(e *Event) bool { return e.Body.GetPodFinished().GetUid() == s.uid })
	if done != nil {
		a.since(done.Time, done)
	}
	a.because("%s, and nothing of it is left on the node", s.ending(a))
	s.add(a, done, "")
}
