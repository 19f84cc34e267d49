package host

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// cell is one actor: its decider and its position in the journal.
type cell struct {
	ref     messages.Ref
	decider actors.Decider
	// handled is the seq of the last folded record.
	handled uint64
	// quarantined is set while the actor is quarantined and handles nothing.
	quarantined *journaletv1.Quarantined
	// contained is the last record up to which the state contains all records of a quarantined actor; it may be above
	// handled, since not every record concerns the actor.
	contained uint64
	// behind: the actor was quarantined in the newest snapshots, and needs the records after contained.
	behind bool
	// diverged: the state is within a record, because the actor could not be rebuilt or its step not be folded.
	diverged bool
}

// delivery is a record with the events that concern one actor.
type delivery struct {
	rec *journaletv1.Record
	// indices are those of the events in messages.Events(rec).
	indices []int
	// manifests are the manifests of those events by index; nil for an event without one.
	manifests []*corev1.Pod
}

// failure is why a cell could not handle a record.
type failure struct {
	code  journaletv1.DecisionError
	cause uint64
	err   error
}

func (f *failure) Error() string { return fmt.Sprintf("record %d: %v", f.cause, f.err) }

// input returns the decider's input for a delivery.
func (d *delivery) input() actors.Input {
	rec := d.rec
	events, author := messages.Events(rec), messages.RefOf(rec.GetActor())
	in := actors.Input{Seq: rec.GetSeq(), Time: rec.GetTime().AsTime(), Events: make([]actors.Event, len(d.indices))}
	for n, i := range d.indices {
		e := actors.Event{Seq: rec.GetSeq(), Time: in.Time, Author: author, Body: events[i]}
		if rec.GetStep() != nil {
			e.ID = messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), author, i)
		}
		if d.manifests != nil {
			e.Manifest = d.manifests[n]
		}
		in.Events[n] = e
	}
	return in
}

// handle folds a record, decides and folds the decisions. It returns the step to record in its parts, none without a
// decision. After a failure the cell's state differs from the journal and the cell must be dropped.
func (c *cell) handle(d *delivery, epoch uint64, now time.Time) (step []*journaletv1.Record, fail *failure) {
	defer c.guard(d.rec.GetSeq(), &fail)
	in := d.input()
	if fail := c.evolve(in); fail != nil {
		return nil, fail
	}
	var decisions []*journaletv1.Event
	err := c.decider.Decide(in, func(e *journaletv1.Event) error {
		id := messages.DecisionID(epoch, in.Seq, c.ref, len(decisions))
		decisions = append(decisions, e)
		return c.decider.Evolve(actors.Event{ID: id, Seq: in.Seq, Time: in.Time, Author: c.ref, Body: e})
	})
	if err != nil {
		return nil, failed(in.Seq, err)
	}
	after := c.handled
	c.handled = in.Seq
	return split(c.ref, in.Seq, after, now, decisions), nil
}

// refold folds a record that was handled before, with the step that was recorded for it, if any.
func (c *cell) refold(d *delivery, step *journaletv1.Record) (fail *failure) {
	defer c.guard(d.rec.GetSeq(), &fail)
	in := d.input()
	if step != nil && step.GetStep().GetAfter() != c.handled {
		return &failure{journaletv1.DecisionError_DECISION_ERROR_ORDER_BROKEN, in.Seq, fmt.Errorf(
			"step %d follows record %d, but the fold is at %d", step.GetSeq(), step.GetStep().GetAfter(), c.handled)}
	}
	if fail := c.evolve(in); fail != nil {
		return fail
	}
	c.handled = in.Seq
	for i, e := range step.GetStep().GetDecisions() {
		id := messages.DecisionID(step.GetEpoch(), in.Seq, c.ref, i)
		if err := c.decider.Evolve(actors.Event{ID: id, Seq: in.Seq, Time: in.Time, Author: c.ref, Body: e}); err != nil {
			return failed(in.Seq, err)
		}
	}
	return nil
}

func (c *cell) evolve(in actors.Input) *failure {
	for _, e := range in.Events {
		if needsManifest(e.Body) && e.Manifest == nil {
			return &failure{journaletv1.DecisionError_DECISION_ERROR_MANIFEST_MISSING, in.Seq,
				fmt.Errorf("manifest %s is missing", digestOf(e.Body))}
		}
		if err := c.decider.Evolve(e); err != nil {
			return failed(in.Seq, err)
		}
	}
	return nil
}

// guard turns a panic of a decider into a failure.
func (c *cell) guard(seq uint64, fail **failure) {
	if p := recover(); p != nil {
		err := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		*fail = &failure{journaletv1.DecisionError_DECISION_ERROR_PANIC, seq, err}
	}
}

func failed(seq uint64, err error) *failure {
	var illegal *actors.IllegalError
	code := journaletv1.DecisionError_DECISION_ERROR_UNSPECIFIED
	if errors.As(err, &illegal) {
		code = journaletv1.DecisionError_DECISION_ERROR_ILLEGAL_TRANSITION
	}
	return &failure{code, seq, err}
}

// digestOf returns the digest of the manifest that an event carries, "" for none.
func digestOf(e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodUpdated:
		return k.PodUpdated.GetPod().GetDigest()
	case *journaletv1.Event_AdmissionRequested:
		return k.AdmissionRequested.GetDigest()
	case *journaletv1.Event_ResizeDecided:
		if k.ResizeDecided.GetAllocated() {
			return k.ResizeDecided.GetDigest()
		}
	}
	return ""
}

// needsManifest reports whether an event needs its manifest. A removal names one but does not need it.
func needsManifest(e *journaletv1.Event) bool {
	return digestOf(e) != "" && e.GetPodUpdated().GetOperation() != journaletv1.PodOperation_POD_OPERATION_REMOVE
}
