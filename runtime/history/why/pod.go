package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/history/describe"
)

// backRecords bounds how far back what explains a pod's present state is looked for, in records.
const backRecords = 100_000

// ofPod answers why a pod is as it is.
func (x *explainer) ofPod(q Query) (*Answer, error) {
	uid, err := x.findPod(q)
	if err != nil {
		return nil, err
	}
	x.j.findBy(uid)
	x.learnName(uid, x.j.last)
	s, err := x.newSubject(uid)
	if err != nil {
		return nil, err
	}
	a := x.newAnswer()
	ref := cmp.Or(s.state.GetPod(), s.state.GetReportedAs())
	a.Pod = &Pod{UID: uid, Namespace: ref.GetNamespace(), Name: ref.GetName()}
	if q.Container != "" {
		return a, s.restart(a, q)
	}
	if s.log.floor+backRecords < s.at {
		s.log.floor = min(s.log.low, max(s.log.floor, s.at-backRecords))
	}
	s.explain(a)
	if s.state.GetStage() == journaletv1.PodStage_POD_STAGE_RUNNING && s.quarantined == nil {
		if err := s.addStart(a); err != nil {
			return nil, err
		}
	}
	s.finish(a)
	if q.All {
		err = s.chains(a, q)
	}
	return a, err
}

// explain fills in the pod's state and its reasons, by the stage that it is in.
func (s *subject) explain(a *Answer) {
	switch stage := s.state.GetStage(); {
	case s.quarantined != nil:
		s.quarantine(a)
	case stage == journaletv1.PodStage_POD_STAGE_UNSPECIFIED:
		s.orphan(a)
	case stage == journaletv1.PodStage_POD_STAGE_FINISHED:
		s.finished(a)
	case s.state.GetRemoved(), stage == journaletv1.PodStage_POD_STAGE_TERMINATING,
		stage == journaletv1.PodStage_POD_STAGE_CLEANING:
		s.terminating(a)
	case stage == journaletv1.PodStage_POD_STAGE_TERMINATED:
		s.ended(a)
	case stage == journaletv1.PodStage_POD_STAGE_ADMITTING:
		s.admitting(a)
	default:
		s.running(a)
	}
}

// finish sorts the reasons, each once, and composes the summary.
func (s *subject) finish(a *Answer) {
	slices.SortStableFunc(a.Reasons, func(x, y Line) int { return cmp.Compare(x.Seq, y.Seq) })
	all := slices.Clone(a.Reasons)
	a.Reasons = slices.DeleteFunc(a.Reasons, func(o Line) bool {
		return o.origin && slices.ContainsFunc(all, func(l Line) bool {
			return !l.origin && l.Seq == o.Seq && l.Event == o.Event // it says the same, in other words
		})
	})
	a.Reasons = slices.CompactFunc(a.Reasons, func(x, y Line) bool { return x.Seq == y.Seq && x.Text == y.Text })
	a.Summary = a.Pod.String() + " is " + a.State
	if !a.Since.IsZero() {
		a.Summary += " since " + a.Since.Format(time.RFC3339)
	}
	if a.Because != "" {
		a.Summary += ": " + a.Because
	}
	if !a.WaitsSince.IsZero() {
		a.Summary += ", since " + a.WaitsSince.Format(time.RFC3339)
	}
	if !a.Until.IsZero() {
		a.Summary += "; " + a.UntilWhat + " at " + a.Until.Format(time.RFC3339)
	}
}

// chains adds the chains behind the reasons.
func (s *subject) chains(a *Answer, q Query) error {
	seen := map[uint64]bool{}
	for _, l := range slices.Backward(a.Reasons) {
		if seen[l.Seq] {
			continue
		}
		seen[l.Seq] = true
		e := s.log.last(l.Seq+1, l.Seq, func(e *Event) bool { return e.Seq == l.Seq && e.Name() == l.Event })
		if e == nil {
			continue
		}
		c, err := s.chain(*e)
		if err != nil {
			return err
		}
		a.Chains = append(a.Chains, s.chainAnswer(c, q.All))
	}
	return nil
}

// add adds an event to the reasons, in its own words or in others.
func (s *subject) add(a *Answer, e *Event, text string) {
	if e == nil {
		return
	}
	l := s.line(*e, false)
	l.Text = cmp.Or(text, l.Text)
	a.Reasons = append(a.Reasons, l)
}

// addOrigin adds the fact from outside that began what an event belongs to, in its own words.
func (s *subject) addOrigin(a *Answer, e *Event) {
	if e == nil {
		return
	}
	c, err := s.chain(*e)
	if err != nil || !c.End.Kind.Outside() {
		return
	}
	if origin := c.Events[len(c.Events)-1]; origin.Seq != e.Seq {
		s.add(a, &origin, "")
		a.Reasons[len(a.Reasons)-1].origin = true
	}
}

// because sets the main reason, unless there is one.
func (a *Answer) because(format string, args ...any) {
	if a.Because == "" {
		a.Because = fmt.Sprintf(format, args...)
	}
}

// becauseSince is because with since when it is so.
func (a *Answer) becauseSince(since time.Time, format string, args ...any) {
	if a.Because == "" {
		a.because(format, args...)
		a.WaitsSince = since
	}
}

// until sets what happens next, and when.
func (a *Answer) until(at time.Time, what string) {
	if a.Until.IsZero() {
		a.Until, a.UntilWhat = at, what
	}
}

// since sets since when the state is so.
func (a *Answer) since(at time.Time, e *Event) {
	a.Since = at
	if e != nil {
		a.SinceSeq = e.Seq
	}
}

// status returns the record that gave a condition its present status; nil if that record is too far back.
func (s *subject) status(kind corev1.PodConditionType) (*journaletv1.Condition, *Event) {
	cond := s.state.GetConditions()[string(kind)]
	if cond == nil {
		return nil, nil
	}
	// If it is the same in the snapshot, the record is further back than is worth reading.
	base := s.base.GetConditions()[string(kind)]
	far := base != nil && base.GetStatus() == cond.GetStatus() &&
		base.GetLastTransition().AsTime().Equal(cond.GetLastTransition().AsTime())
	from := s.log.low
	reported := func(e *Event) *journaletv1.Condition {
		for _, c := range e.Body.GetPodStatusChanged().GetConditions() {
			if c.GetType() == cond.GetType() {
				return c
			}
		}
		return nil
	}
	same := func(e *Event) bool { return reported(e).GetStatus() == cond.GetStatus() }
	if far && s.log.last(s.at+1, from, func(e *Event) bool { return reported(e) != nil && !same(e) }) == nil {
		return cond, nil
	}
	return cond, s.log.since(s.at+1, func(e *Event) bool { return reported(e) != nil }, same)
}

// running explains an admitted pod.
func (s *subject) running(a *Answer) {
	ready, changed := s.status(corev1.PodReady)
	phase := describe.Enum(s.state.GetPhase().String(), "POD_PHASE_")
	switch {
	case ready.GetStatus():
		a.State = phase + " and Ready"
	case s.state.GetPhase() == journaletv1.PodPhase_POD_PHASE_RUNNING:
		a.State = phase + " but not Ready"
	default:
		a.State = phase
	}
	if ready != nil {
		a.since(ready.GetLastTransition().AsTime(), changed)
	}
	if s.state.GetPhase() == journaletv1.PodPhase_POD_PHASE_PENDING {
		a.since(s.state.GetCreatedAt().AsTime(), nil)
		a.SinceSeq = s.state.GetIncarnation()
	}
	if s.state.GetLeftAlone() {
		a.because("another agent has started it, and this node does not support %s: it is left alone",
			s.state.GetPod().GetApi().GetUnsupported())
		s.add(a, s.admission(), "")
	}
	if !ready.GetStatus() {
		s.problems(a)
		if a.Because == "" && ready != nil {
			a.because("%s", text(ready.GetReason(), ready.GetMessage()))
		}
		s.add(a, changed, "")
	} else {
		s.add(a, changed, "")
		s.restarts(a)
		s.agentRestarts(a, changed)
	}
	s.ephemerals(a)
	s.resize(a)
}

// admission returns the node's last decision on the pod's admission; nil for none.
func (s *subject) admission() *Event {
	return s.log.last(s.at+1, 0, func(e *Event) bool { return e.Body.GetAdmissionDecided().GetUid() == s.uid })
}

// text joins a reason and its message.
func text(reason, message string) string {
	message = oneLine(message)
	switch {
	case reason == "":
		return message
	case message == "":
		return reason
	}
	return reason + ": " + message
}

// maxText bounds a message from elsewhere, such as a termination message, in a sentence, in bytes.
const maxText = 240

// oneLine returns a message on one line, and not longer than maxText.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxText {
		s = plain.Cut(s, maxText) + "..."
	}
	return s
}

// agentRestarts reports a restart of the agent since then that touched nothing of the pod.
func (s *subject) agentRestarts(a *Answer, since *Event) {
	if since == nil {
		return
	}
	started := s.log.last(s.at+1, since.Seq, func(e *Event) bool { return e.Body.GetAgentStarted() != nil })
	if started == nil {
		return
	}
	text := s.sentence(*started)
	if s.log.next(started.Seq, func(e *Event) bool { return e.call().GetPodUid() == s.uid }) == nil {
		text += "; it has done nothing to this pod since"
	}
	s.add(a, started, text)
}

// resize explains a resize that waits or fails.
func (s *subject) resize(a *Answer) {
	r := s.state.GetResize()
	if r == nil {
		return
	}
	decided := s.log.last(s.at+1, 0, func(e *Event) bool {
		return e.Body.GetResizeDecided().GetUid() == s.uid || e.Body.GetResizePendingPreemption().GetUid() == s.uid
	})
	s.add(a, decided, "")
	if r.GetError() != "" {
		s.add(a, s.failedCall(func(c *journaletv1.CallRequested) bool {
			return c.GetUpdateContainer() != nil || c.GetUpdateSandbox() != nil
		}), "")
	}
}

// quarantine explains a pod whose actor failed.
func (s *subject) quarantine(a *Answer) {
	q := s.quarantined
	a.State = "quarantined"
	e := s.log.last(s.at+1, 0, func(e *Event) bool {
		return e.Body.GetQuarantined().GetKind() == "pod" && e.Body.GetQuarantined().GetId() == s.uid
	})
	if e != nil {
		a.since(e.Time, e)
	}
	a.because("its actor failed on record #%d (%s); its containers keep running, and the agent takes no more decisions "+
		"for it until `journalet lift %s`, a change of its manifest or a restart of the agent", q.GetCause(),
		text(describe.DecisionError(q.GetCode()), q.GetMessage()), s.uid)
	if rec, err := s.j.get(q.GetCause()); err == nil && len(eventsOf(rec)) > 0 {
		cause := eventsOf(rec)[0]
		s.add(a, &cause, "")
	}
	s.add(a, e, "")
}

// orphan explains a pod that no source has named.
func (s *subject) orphan(a *Answer) {
	a.State = "an orphan"
	first := s.log.next(0, func(e *Event) bool { return e.Body.GetPodObserved().GetUid() == s.uid })
	if first != nil {
		a.since(first.Time, first)
	}
	s.add(a, first, "")
	s.add(a, s.log.last(s.at+1, 0, func(e *Event) bool { return e.Body.GetOrphanFound().GetUid() == s.uid }), "")
	s.waits(a)
	wait := a.Because
	a.Because = ""
	a.because("the runtime shows it, and no source names it")
	if wait != "" {
		a.Because += "; " + wait
	}
}

// admitting explains a pod that the node has not admitted.
func (s *subject) admitting(a *Answer) {
	a.State = "Pending"
	a.since(s.state.GetCreatedAt().AsTime(), nil)
	requested := s.log.last(s.at+1, 0, func(e *Event) bool {
		// Of a pod that has not requested its admission yet, what added it.
		return e.Body.GetAdmissionRequested().GetUid() == s.uid || e.Body.GetPodUpdated().GetPod().GetUid() == s.uid
	})
	s.addOrigin(a, requested)
	waits := s.log.last(s.at+1, 0, func(e *Event) bool {
		return e.Body.GetAdmissionDeferred().GetUid() == s.uid || e.Body.GetAdmissionPendingPreemption().GetUid() == s.uid
	})
	switch {
	case waits.is("admission_deferred"):
		deferred := waits.Body.GetAdmissionDeferred()
		if deferred.GetReason() != "" {
			a.because("%s: %s", deferred.GetReason(), deferred.GetMessage())
			s.add(a, s.log.last(s.at+1, 0, func(e *Event) bool { return e.Body.GetDrainRequested() != nil }), "")
		} else {
			a.because("it waits until pod %s, which has its name, has ended", deferred.GetHolderUid())
		}
	case waits.is("admission_pending_preemption"):
		victims := waits.Body.GetAdmissionPendingPreemption().GetVictims()
		for _, v := range victims {
			s.learnName(v, waits.Seq)
		}
		a.because("it waits until pods of lower priority that it preempts have ended")
	case s.state.GetTimers().GetSet()[pod.InspectionTimer] != nil:
		a.because("this node does not support %s: the next inspection shows whether it runs already, and is left alone",
			s.state.GetPod().GetApi().GetUnsupported())
	default:
		a.because("the node has not decided on its admission")
	}
	s.add(a, requested, "")
	s.add(a, waits, "")
}

// is reports whether an event has a name of the contract.
func (e *Event) is(name string) bool { return e != nil && e.Name() == name }
