package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
	"github.com/journalet/journalet/runtime/history/describe"
)

// failedCall returns the newest failure of the pod's calls that match, if no such call has succeeded since. One that
// was withdrawn, or that a restart interrupted, has done neither.
func (s *subject) failedCall(match func(*journaletv1.CallRequested) bool) *Event {
	var failed *Event
	s.log.last(s.at+1, 0, func(e *Event) bool {
		f := e.Body.GetCallFinished()
		if f == nil || f.GetRequester() != messages.Pod(s.uid).String() {
			return false
		}
		req := s.requestOf(f.GetIntentId(), e.Seq)
		if !match(req.call()) {
			return false
		}
		if kind.Failed(f.GetError()) {
			at := *e
			failed = &at
		}
		return failed != nil || f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	})
	return failed
}

// requestOf returns the request of a call of the pod by its intent's id, nil if it is too far back.
func (s *subject) requestOf(intent string, before uint64) *Event {
	return s.log.last(before, 0, func(e *Event) bool { return e.ID == intent })
}

// underWay explains a call of the pod that has not ended. It reports whether there is one. what is the call in words,
// "" for its own.
func (s *subject) underWay(a *Answer, container string, match func(*journaletv1.CallRequested) bool, what string) bool {
	for _, id := range slices.Sorted(maps.Keys(s.state.GetCalls())) {
		call := s.state.GetCalls()[id]
		if !match(call.GetRequest()) {
			continue
		}
		text := what
		if text == "" {
			text = fmt.Sprintf("container %s waits for a call: %s", container, describe.Call(call.GetRequest()))
		}
		s.call(a, id, call.GetRequestedAt().AsTime(), text)
		return true
	}
	return false
}

// call explains one call under way: since when, and what it waits for.
func (s *subject) call(a *Answer, id string, since time.Time, what string) {
	requested := s.requestOf(id, s.at+1)
	if requested.call().GetStopContainer() != nil {
		s.addOrigin(a, requested)
	}
	s.add(a, requested, "")
	dispatched := s.log.last(s.at+1, 0, func(e *Event) bool { return e.Body.GetCallDispatched().GetIntentId() == id })
	switch health := s.health(); {
	case dispatched != nil:
		a.becauseSince(dispatched.Time, "%s", what)
		s.add(a, dispatched, "")
	case health != nil && !health.Body.GetRuntimeHealthChanged().GetRuntimeReady():
		a.because("%s", text(what+", and the container runtime is not ready",
			health.Body.GetRuntimeHealthChanged().GetMessage()))
		s.add(a, health, "")
	case health != nil && !health.Body.GetRuntimeHealthChanged().GetNetworkReady():
		a.because("%s", text(what+", and the runtime's network is not ready",
			health.Body.GetRuntimeHealthChanged().GetMessage()))
		s.add(a, health, "")
	default:
		a.becauseSince(since, "%s, and the call waits for a slot", what)
	}
}

// health returns the newest change of the runtime's health, nil if it is too far back.
func (s *subject) health() *Event {
	from := Event{Seq: s.at + 1}
	e, err := s.latestFrom(from, messages.Runtime, max(s.j.first, s.log.floor), func(e *Event) bool {
		return e.Body.GetRuntimeHealthChanged() != nil
	})
	if err != nil {
		return nil
	}
	return e
}

// exit adds how an instance of a container ended: what began it, the call that stopped it, and its end.
func (s *subject) exit(a *Answer, c *journaletv1.ContainerObservation) *Event {
	e := s.exitEvent(c.GetId())
	if e == nil {
		return nil
	}
	what := changeExited
	shown := describe.ContainerOf(e.Body.GetPodObserved(), c.GetId())
	if shown == nil {
		what, shown = changeVanished, c
	}
	if call, err := s.endedBy(*e, change{what: what, container: shown}); err == nil && call != nil {
		s.addOrigin(a, call)
		s.add(a, call, "")
	}
	s.add(a, s.oomKill(c, e), "")
	text := fmt.Sprintf("container %s%s %s", c.GetName(), restartText(c.GetAttempt()), exitText(c))
	if m := oneLine(c.GetMessage()); m != "" && what == changeExited {
		text += ": " + m
	}
	s.add(a, e, text)
	return e
}

func restartText(attempt uint32) string {
	if attempt == 0 {
		return ""
	}
	return fmt.Sprintf(" (restart %d)", attempt)
}

// exitEvent returns the first observation that shows the end of an instance: as exited, or as vanished.
func (s *subject) exitEvent(id string) *Event {
	observed := func(e *Event) bool { return e.Body.GetPodObserved().GetUid() == s.uid }
	exited := func(e *Event) bool {
		c := describe.ContainerOf(e.Body.GetPodObserved(), id)
		return c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_EXITED
	}
	if seen := s.log.last(s.at+1, 0, exited); seen != nil {
		return s.log.since(seen.Seq+1, observed, exited)
	}
	shown := s.log.last(s.at+1, 0, func(e *Event) bool { return describe.ContainerOf(e.Body.GetPodObserved(), id) != nil })
	if shown == nil {
		return nil
	}
	return s.log.next(shown.Seq+1, observed)
}

// exitText returns how an instance ended in words: "exited with code 1 (Error) 1.2s after its start".
func exitText(c *journaletv1.ContainerObservation) string {
	var b strings.Builder
	switch {
	case c.GetReason() == "ContainerStatusUnknown":
		return "vanished from the runtime: nothing shows how it ended"
	default:
		fmt.Fprintf(&b, "exited with code %d", c.GetExitCode())
		if c.GetReason() != "" {
			fmt.Fprintf(&b, " (%s)", c.GetReason())
		}
	}
	if c.GetStartedAt() != nil && c.GetFinishedAt() != nil {
		if ran := c.GetFinishedAt().AsTime().Sub(c.GetStartedAt().AsTime()); ran >= 0 {
			fmt.Fprintf(&b, " %s after its start", short(ran))
		}
	}
	return b.String()
}

func failureText(f *journaletv1.CallFinished) string {
	return errorText(f.GetError(), f.GetMessage())
}

// errorText returns an error of a call in words. That it is the runtime's goes without saying.
func errorText(e journaletv1.CallError, message string) string {
	if e == journaletv1.CallError_CALL_ERROR_RUNTIME && message != "" {
		return oneLine(message)
	}
	return text(describe.Enum(e.String(), "CALL_ERROR_"), message)
}

// probeText returns why a probe failed, without the kubelet's "Readiness probe failed: " before it.
func probeText(r *journaletv1.ProbeResult) string {
	why := r.GetMessage()
	for {
		_, after, ok := strings.Cut(why, " probe failed: ")
		if !ok {
			return oneLine(why)
		}
		why = after
	}
}
