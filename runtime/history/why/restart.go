package why

import (
	"fmt"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
	"github.com/journalet/journalet/runtime/history/describe"
)

// restart answers why a container was restarted: how the instance before it ended and what ended it, how long the start
// waited and for what, and how it went.
func (s *subject) restart(a *Answer, q Query) error {
	s.log.floor = min(s.log.low, max(s.j.first, s.state.GetIncarnation()))
	r := s.state.GetContainers()[q.Container]
	if r == nil {
		return notFound("pod %s has no container %q, or it was never started: it has %v", a.Pod, q.Container, s.containers)
	}
	n := q.Restart
	if n == 0 {
		n = r.GetCurrent().GetAttempt()
	}
	if n == 0 {
		return notFound("container %s of pod %s was not restarted", q.Container, a.Pod)
	}
	if newest := max(r.GetCurrent().GetAttempt(), r.GetNextAttempt()-1); n > newest {
		return notFound("container %s of pod %s was restarted %s: there is no restart %d", q.Container, a.Pod,
			describe.Count(int(r.GetCurrent().GetAttempt()), "time"), n)
	}
	requested := s.firstStart(q.Container, n)
	if requested == nil {
		return s.startGone(a, q.Container, n)
	}
	before := s.instance(q.Container, n-1, requested.Seq)
	a.Headline = fmt.Sprintf("container %s of %s was restarted (restart %d)", q.Container, a.Pod, n)
	a.since(requested.Time, requested)
	s.why(a, q.Container, before, requested)
	s.waited(a, q.Container, before, requested)
	s.started(a, q.Container, n, requested)
	s.finish(a)
	a.Summary = fmt.Sprintf("%s at %s: %s", a.Headline, a.Since.Format(time.RFC3339), a.Because)
	if q.All {
		return s.chains(a, q)
	}
	return nil
}

// startGone explains that the record of a restart is not in the journal.
func (s *subject) startGone(a *Answer, container string, n uint32) error {
	if s.j.first > 1 {
		return notFound("restart %d of container %s of pod %s is before record %d, with which the journal begins", n,
			container, a.Pod, s.j.first)
	}
	return notFound("no record shows restart %d of container %s of pod %s: it was before this journal", n, container,
		a.Pod)
}

// firstStart returns the first request of the start of an instance. One that fails is repeated with the same number.
func (s *subject) firstStart(container string, attempt uint32) *Event {
	var first *Event
	s.log.last(s.at+1, 0, func(e *Event) bool {
		start := e.call().GetStartContainer()
		if start.GetContainer() != container || start.GetPart() == journaletv1.StartPart_START_PART_START {
			return false
		}
		if start.GetAttempt() == attempt {
			at := *e
			first = &at
		}
		return start.GetAttempt() < attempt
	})
	return first
}

// instance returns an instance of a container as it was last observed before a record, nil if it was not. Without one
// of this number it is the one before it: a number may be left out after a lost journal.
func (s *subject) instance(container string, attempt uint32, before uint64) *journaletv1.ContainerObservation {
	var found *journaletv1.ContainerObservation
	s.log.last(before, 0, func(e *Event) bool {
		for _, c := range e.observation().GetContainers() {
			if c.GetName() == container && c.GetAttempt() <= attempt && (found == nil || c.GetAttempt() > found.GetAttempt()) {
				found = c
			}
		}
		return found != nil
	})
	return found
}

// why adds how the instance before ended.
func (s *subject) why(a *Answer, container string, before *journaletv1.ContainerObservation, requested *Event) {
	if before == nil {
		a.because("the instance before it is not in the journal")
		return
	}
	if first := s.startedEvent(before.GetId(), requested.Seq); first != nil {
		s.add(a, first, fmt.Sprintf("container %s%s was started", container, restartText(before.GetAttempt())))
	}
	at := s.at
	s.at = requested.Seq // the end of the instance as it was known then
	ended := s.exit(a, before)
	s.at = at
	stop := s.stopOf(before, ended)
	a.Ended = endedOf(before, stop)
	a.because("%s%s", endWords(before, stop), oomWords(s.oomKill(before, ended)))
}

// endText returns how an instance ended, and who ended it.
func (s *subject) endText(c *journaletv1.ContainerObservation) string {
	ended := s.exitEvent(c.GetId())
	return endWords(c, s.stopOf(c, ended)) + oomWords(s.oomKill(c, ended))
}

func endWords(c *journaletv1.ContainerObservation, stop *Event) string {
	switch {
	case c.GetState() != journaletv1.ContainerState_CONTAINER_STATE_EXITED:
		return "it vanished from the runtime: nothing shows how it ended"
	case stop == nil:
		return "it " + exitText(c)
	case stop.call().GetStopContainer() != nil:
		return fmt.Sprintf("the agent stopped it (%s); it %s", stop.call().GetStopContainer().GetReason(), exitText(c))
	}
	return "its sandbox was stopped; it " + exitText(c)
}

func endedOf(c *journaletv1.ContainerObservation, stop *Event) *Ended {
	out := &Ended{
		ContainerID: c.GetId(), Container: c.GetName(), Restart: c.GetAttempt(), ExitCode: c.GetExitCode(),
		Reason: c.GetReason(), Vanished: c.GetState() != journaletv1.ContainerState_CONTAINER_STATE_EXITED,
	}
	if c.GetStartedAt() != nil {
		out.Started = c.GetStartedAt().AsTime()
	}
	if c.GetFinishedAt() != nil {
		out.Finished = c.GetFinishedAt().AsTime()
	}
	if stop != nil {
		out.StoppedBy, out.StopReason = stop.Seq, stop.call().GetStopContainer().GetReason()
	}
	return out
}

// stopOf returns the call that ended an instance, nil if it ended by itself.
func (s *subject) stopOf(c *journaletv1.ContainerObservation, ended *Event) *Event {
	if ended == nil {
		return nil
	}
	what := changeExited
	if describe.ContainerOf(ended.Body.GetPodObserved(), c.GetId()) == nil {
		what = changeVanished
	}
	call, err := s.endedBy(*ended, change{what: what, container: c})
	if err != nil {
		return nil
	}
	return call
}

// waited adds what happened between the end of an instance and the request of the next start: the back-off, pulls, and
// a sandbox that had to be replaced.
func (s *subject) waited(a *Answer, container string, before *journaletv1.ContainerObservation, requested *Event) {
	from := uint64(0)
	if before != nil {
		if e := s.exitEvent(before.GetId()); e != nil && e.Seq < requested.Seq {
			from = e.Seq
		}
	}
	set := s.log.last(requested.Seq, from, func(e *Event) bool {
		return e.Body.GetTimerSet().GetName() == backOffTimer+container && e.Author == messages.Pod(s.uid)
	})
	switch began := s.backOff(container, requested); {
	case set != nil && set.Seq >= from:
		s.add(a, set, fmt.Sprintf("back-off: restart %d waits %s", requested.call().GetStartContainer().GetAttempt(),
			short(set.Body.GetTimerSet().GetDuration().AsDuration())))
	case began != nil:
		s.add(a, requested, fmt.Sprintf("no back-off before this start; the one after the next exit waits %s",
			began.Body.GetBackOffStarted().GetDelay().AsDuration()))
	}
	s.log.last(requested.Seq, from, func(e *Event) bool {
		f := e.Body.GetCallFinished()
		if kind.Failed(f.GetError()) && s.requestOf(f.GetIntentId(), e.Seq).call().GetRunSandbox() != nil ||
			e.Body.GetImagePullDecided().GetUid() == s.uid || e.Body.GetAllContainersRestarting() != nil {
			s.add(a, e, "")
		}
		return false
	})
}

// backOff returns the back-off that began with a start, nil for none.
func (s *subject) backOff(container string, requested *Event) *Event {
	return s.log.last(requested.Seq+1, requested.Seq, func(e *Event) bool {
		return e.Body.GetBackOffStarted().GetContainer() == container && e.Seq == requested.Seq
	})
}

// started adds how the start went: failures before it succeeded, and its end.
func (s *subject) started(a *Answer, container string, attempt uint32, requested *Event) {
	var done *Event
	for i := range s.log.events {
		e := &s.log.events[i]
		f := e.Body.GetCallFinished()
		if e.Seq <= requested.Seq || f == nil || f.GetRequester() != messages.Pod(s.uid).String() {
			continue
		}
		start := s.requestOf(f.GetIntentId(), e.Seq).call().GetStartContainer()
		if start.GetContainer() != container || start.GetAttempt() != attempt {
			continue
		}
		if kind.Failed(f.GetError()) {
			s.add(a, e, "")
		} else if f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED &&
			start.GetPart() != journaletv1.StartPart_START_PART_CREATE {
			done = e
			break
		}
	}
	if done == nil {
		s.add(a, requested, "")
		return
	}
	s.add(a, done, fmt.Sprintf("container %s was started: restart %d", container, attempt))
}

// restarts adds the last restart of each container that has had one.
func (s *subject) restarts(a *Answer) {
	for _, name := range s.containers {
		r := s.state.GetContainers()[name]
		last, cur := r.GetLast(), r.GetCurrent()
		if last == nil || last.GetId() == cur.GetId() || cur.GetAttempt() == 0 {
			continue
		}
		s.exit(a, last)
		s.add(a, s.startedEvent(cur.GetId(), s.at+1),
			fmt.Sprintf("container %s was started: restart %d", name, cur.GetAttempt()))
	}
}

// startedEvent returns the end of the call that started an instance, before a record; nil if it is too far back.
func (s *subject) startedEvent(id string, before uint64) *Event {
	return s.log.last(before, 0, func(e *Event) bool {
		f := e.Body.GetCallFinished()
		return id != "" && f.GetContainerId() == id && f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED &&
			s.requestOf(f.GetIntentId(), e.Seq).call().GetStartContainer() != nil
	})
}
