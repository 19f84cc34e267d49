package why

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// Relation is how an event led to another.
type Relation string

// The relations of an event to the one before it in a chain.
const (
	// Handled is the event that a decision's author handled.
	Handled Relation = "handled"
	// Requested is the decision whose response a fact or a decision is: the request of a call, the timer that was set,
	// the probe that was started.
	Requested Relation = "requested"
	// Reason is the event that a decision names as its reason, where its author handled it earlier: the failed probe
	// behind a stop that had to wait for another call.
	Reason Relation = "reason"
	// Effect is the call whose effect an observation shows.
	Effect Relation = "effect"
)

// Link leads from an event to one before it.
type Link struct {
	Relation Relation
	To       Event
}

// behind returns what led to an event: a link, or the end of its chain. next is the event that followed from e in the
// chain, nil at its beginning: an observation shows many things, and next says which of them matters.
func (x *explainer) behind(e Event, next *Event) (*Link, *End, error) {
	if e.Cause > 0 {
		return x.behindDecision(e)
	}
	if end := x.outside(e); end != nil {
		return nil, end, nil
	}
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_PodObserved:
		return x.behindObservation(e, next)
	case *journaletv1.Event_CallFinished:
		if k.CallFinished.GetError() == journaletv1.CallError_CALL_ERROR_WITHDRAWN {
			if w, err := x.withdrawal(e, k.CallFinished.GetIntentId()); w != nil || err != nil {
				return link(Requested, w, nil, err)
			}
		}
		to, end, err := x.decision(k.CallFinished.GetIntentId(), e)
		return link(Requested, to, end, err)
	case *journaletv1.Event_TimerFired:
		to, end, err := x.timerSet(e)
		return link(Requested, to, end, err)
	}
	return nil, &End{Kind: Unknown, Seq: e.Seq}, nil
}

func link(r Relation, to *Event, end *End, err error) (*Link, *End, error) {
	if to == nil || err != nil {
		return nil, end, err
	}
	return &Link{r, *to}, nil, nil
}

// behindDecision returns what led to a decision: most often the event that its author handled.
func (x *explainer) behindDecision(e Event) (*Link, *End, error) {
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_CallDispatched:
		to, end, err := x.decision(k.CallDispatched.GetIntentId(), e)
		return link(Requested, to, end, err)
	case *journaletv1.Event_CallRequested:
		if to, err := x.failedProbe(e, k.CallRequested); to != nil || err != nil {
			return link(Reason, to, nil, err)
		}
	}
	to, end, err := x.handled(e)
	return link(Handled, to, end, err)
}

// handled returns the event that the author of a decision handled.
func (x *explainer) handled(e Event) (*Event, *End, error) {
	rec, end, err := x.record(e.Cause)
	if rec == nil {
		return nil, end, err
	}
	all := eventsOf(rec)
	var received []Event
	for _, c := range all {
		if history.Concerns(e.Author, c.Author, c.Body) && (c.Author != e.Author || c.Cause == 0) {
			received = append(received, c)
		}
	}
	if len(received) == 0 {
		return nil, &End{Kind: Unknown, Seq: e.Cause}, nil
	}
	if i := slices.IndexFunc(received, func(c Event) bool { return sameObject(&c, &e) }); i >= 0 {
		return &received[i], nil, nil
	}
	return &received[0], nil, nil
}

// sameObject reports whether two events are about the same call, the same image of a pod, or the same pod.
func sameObject(c, e *Event) bool {
	if id := e.text("intent_id"); id != "" {
		return id == c.ID || id == c.text("intent_id")
	}
	if image := e.image(); image != "" {
		return image == c.image() && (e.uid() == "" || e.uid() == c.uid())
	}
	if e.Author.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
		return false // it receives only what concerns its pod
	}
	return e.uid() != "" && e.uid() == c.uid()
}

// record returns a record, or why it cannot be had.
func (x *explainer) record(seq uint64) (*journaletv1.Record, *End, error) {
	rec, err := x.j.get(seq)
	switch {
	case errors.Is(err, history.ErrGone):
		return nil, x.cut(seq), nil
	case errors.Is(err, history.ErrNoRecord):
		return nil, &End{Kind: Lost, Seq: seq}, nil
	case errors.Is(err, errLimit):
		return nil, &End{Kind: Limit, Seq: seq}, nil
	}
	return rec, nil, err
}

// podID returns the UID of an actor that is a pod, which its records hold, else "".
func podID(r messages.Ref) string {
	if r.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
		return ""
	}
	return r.ID
}

// decision returns the decision with an id, which was taken before e: its record follows its cause's.
func (x *explainer) decision(id string, e Event) (*Event, *End, error) {
	d, err := messages.ParseDecisionID(id)
	if err != nil || d.Cause >= e.Seq {
		return nil, &End{Kind: Lost, Seq: e.Seq}, nil
	}
	var found *Event
	err = x.j.forwardOf(podID(d.Author), d.Cause+1, e.Seq-1, func(h head, b []byte) bool {
		if h.author != d.Author || !h.step || h.epoch != d.Epoch || h.cause < d.Cause {
			return false
		}
		if h.cause > d.Cause {
			return true // an actor handles records in their order
		}
		rec, err := messages.Decode(b)
		if err != nil {
			return false
		}
		for _, c := range eventsOf(rec) {
			if c.ID == id {
				found = &c
				return true
			}
		}
		return false
	})
	switch {
	case errors.Is(err, errLimit):
		return nil, &End{Kind: Limit, Seq: e.Seq}, nil
	case err != nil || found != nil:
		return found, nil, err
	case d.Cause < x.j.first && !x.lostBefore(d.Epoch):
		return nil, x.cut(d.Cause), nil
	}
	return nil, &End{Kind: Lost, Seq: e.Seq}, nil
}

// lostBefore reports whether the journal began again after an epoch: what was recorded in it is lost, not cut.
func (x *explainer) lostBefore(epoch uint64) bool {
	if x.j.first != 1 {
		return false
	}
	rec, err := x.j.get(1)
	return err == nil && rec.GetEpoch() > epoch
}

// latest returns the newest event before e that match accepts, among the records of an actor that contain a text.
func (x *explainer) latest(e Event, author messages.Ref, text string, match func(*Event) bool) (*Event, error) {
	if e.Seq == 0 {
		return nil, nil
	}
	var found *Event
	needle := []byte(text)
	_, err := x.j.backwardOf(podID(author), x.j.first, e.Seq-1, func(h head, b []byte) bool {
		if h.author != author || !bytes.Contains(b, needle) {
			return false
		}
		rec, err := messages.Decode(b)
		if err != nil {
			return false
		}
		for _, c := range slices.Backward(eventsOf(rec)) {
			if match(&c) {
				found = &c
				return true
			}
		}
		return false
	})
	return found, err
}

// withdrawal returns the decision that withdrew a call, nil if it is not there.
func (x *explainer) withdrawal(e Event, intent string) (*Event, error) {
	d, err := messages.ParseDecisionID(intent)
	if err != nil {
		return nil, nil
	}
	to, err := x.latest(e, d.Author, intent, func(c *Event) bool {
		return c.Body.GetCallWithdrawn().GetIntentId() == intent || c.ID == intent
	})
	if to.call() != nil {
		return nil, ignoreLimit(err)
	}
	return to, ignoreLimit(err)
}

// call returns the call that an event requests, nil for none.
func (e *Event) call() *journaletv1.CallRequested {
	if e == nil {
		return nil
	}
	return e.Body.GetCallRequested()
}

func ignoreLimit(err error) error {
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// timerSet returns the decision that set a timer which has fired.
func (x *explainer) timerSet(e Event) (*Event, *End, error) {
	fired := e.Body.GetTimerFired()
	to, err := x.latest(e, e.Author, fired.GetName(), func(c *Event) bool {
		set := c.Body.GetTimerSet()
		return set.GetName() == fired.GetName() && set.GetGeneration() == fired.GetGeneration()
	})
	switch {
	case errors.Is(err, errLimit):
		return nil, &End{Kind: Limit, Seq: e.Seq}, nil
	case err == nil && to == nil && x.j.first > 1:
		return nil, x.cut(x.j.first - 1), nil
	case err == nil && to == nil:
		return nil, &End{Kind: Lost, Seq: e.Seq}, nil
	}
	return to, nil, err
}

// probeOf are the stop reasons of a failed probe end.
var probeOf = map[string]journaletv1.ProbeKind{
	" failed liveness probe": journaletv1.ProbeKind_PROBE_KIND_LIVENESS,
	" failed startup probe":  journaletv1.ProbeKind_PROBE_KIND_STARTUP,
}

// failedProbe returns the failed probe that a stop names as its reason, nil if it names none. The stop may have had to
// wait for another call.
func (x *explainer) failedProbe(e Event, req *journaletv1.CallRequested) (*Event, error) {
	reason, container := req.GetStopContainer().GetReason(), req.GetStopContainer().GetContainerId()
	if hook := req.GetRunHook(); hook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
		reason, container = hook.GetReason(), hook.GetContainerId()
	}
	for text, kind := range probeOf {
		if !strings.Contains(reason, text) {
			continue
		}
		to, err := x.latest(e, e.Author, container, func(c *Event) bool {
			r := c.Body.GetProbeResult()
			return r.GetContainerId() == container && r.GetKind() == kind && !r.GetSuccess()
		})
		return to, ignoreLimit(err)
	}
	return nil, nil
}

// latestFrom is latest for the records from a number on, of any content.
func (x *explainer) latestFrom(e Event, author messages.Ref, from uint64, match func(*Event) bool) (*Event, error) {
	var found *Event
	_, err := x.j.backward(from, e.Seq-1, func(h head, b []byte) bool {
		if h.author != author || h.step {
			return false
		}
		rec, err := messages.Decode(b)
		if err != nil {
			return false
		}
		for _, c := range eventsOf(rec) {
			if match(&c) {
				found = &c
				return true
			}
		}
		return false
	})
	return found, ignoreLimit(err)
}
