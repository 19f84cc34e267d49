package fold

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

// Cell is one actor: its decider and its position in the journal.
type Cell struct {
	Ref     messages.Ref
	Decider actors.Decider
	// Handled is the seq of the last folded record.
	Handled uint64
	// Quarantined is set while the actor is quarantined and handles nothing.
	Quarantined *journaletv1.Quarantined
	// Contained is the last record up to which the state contains all records of a quarantined actor; it may be above
	// Handled, since not every record concerns the actor.
	Contained uint64
	// Behind is set if the actor was quarantined in the snapshots, and needs the records after Contained.
	Behind bool
	// Diverged is set if the state is within a record, because the actor could not be rebuilt or its step not folded.
	Diverged bool
}

// Delivery is a record with the events that concern one actor.
type Delivery struct {
	Rec *journaletv1.Record
	// Indices are the indices of the events in messages.Events(Rec).
	Indices []int
	// Manifests are the events' manifests, by the index in Indices: nil for an event without a manifest. Nil before
	// Resolve.
	Manifests []*corev1.Pod
}

// Seq returns the record's seq.
func (d *Delivery) Seq() uint64 { return d.Rec.GetSeq() }

// Failure is why a cell could not handle a record.
type Failure struct {
	Code journaletv1.DecisionError
	// Cause is the seq of that record.
	Cause uint64
	Err   error
}

// Error returns the record and the reason.
func (f *Failure) Error() string { return fmt.Sprintf("record %d: %v", f.Cause, f.Err) }

// Input returns the decider's input for a delivery.
func (d *Delivery) Input() actors.Input {
	rec := d.Rec
	events, author := messages.Events(rec), messages.RefOf(rec.GetActor())
	in := actors.Input{Seq: rec.GetSeq(), Time: rec.GetTime().AsTime(), Events: make([]actors.Event, len(d.Indices))}
	for n, i := range d.Indices {
		e := actors.Event{Seq: rec.GetSeq(), Time: in.Time, Author: author, Body: events[i]}
		if rec.GetStep() != nil {
			e.ID = messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), author, i)
		}
		if d.Manifests != nil {
			e.Manifest = d.Manifests[n]
		}
		in.Events[n] = e
	}
	return in
}

// Handle folds a record, decides and folds the decisions. It returns the step to record in its parts, none without a
// decision. After a failure the cell's state differs from the journal and the cell must be dropped.
func (c *Cell) Handle(d *Delivery, epoch uint64, now time.Time) (step []*journaletv1.Record, fail *Failure) {
	after := c.Handled
	var decisions []*journaletv1.Event
	fail = c.Decide(d, epoch, func(e *journaletv1.Event) error {
		decisions = append(decisions, e)
		return nil
	})
	if fail != nil {
		return nil, fail
	}
	return split(c.Ref, d.Seq(), after, now, decisions), nil
}

// Decide folds a record, decides and folds the decisions; each goes to take before it is folded. An error of take ends
// it: the failure wraps that error, and the decisions before are folded. After any other failure the cell must be
// dropped.
func (c *Cell) Decide(d *Delivery, epoch uint64, take func(*journaletv1.Event) error) (fail *Failure) {
	defer c.guard(d.Rec.GetSeq(), &fail)
	in := d.Input()
	if fail := c.evolve(in); fail != nil {
		return fail
	}
	n := 0
	err := actors.Decide(c.Decider, in, func(e *journaletv1.Event) error {
		if err := take(e); err != nil {
			return err
		}
		id := messages.DecisionID(epoch, in.Seq, c.Ref, n)
		n++
		return c.Decider.Evolve(actors.Event{ID: id, Seq: in.Seq, Time: in.Time, Author: c.Ref, Body: e})
	})
	c.Handled = in.Seq
	if err != nil {
		return failed(in.Seq, err)
	}
	return nil
}

// Refold folds a record that was handled before, with the step that was recorded for it (nil if the actor decided
// nothing). It fails if the step does not follow the cell's last folded record.
func (c *Cell) Refold(d *Delivery, step *journaletv1.Record) (fail *Failure) {
	defer c.guard(d.Rec.GetSeq(), &fail)
	if fail := c.Follows(step); fail != nil {
		return fail
	}
	if fail := c.evolve(d.Input()); fail != nil {
		return fail
	}
	c.Handled = d.Seq()
	return c.FoldStep(d, step, 0)
}

// Follows fails if a step does not follow the cell's last folded record. A nil step never fails.
func (c *Cell) Follows(step *journaletv1.Record) *Failure {
	if step == nil || step.GetStep().GetAfter() == c.Handled {
		return nil
	}
	return &Failure{journaletv1.DecisionError_DECISION_ERROR_ORDER_BROKEN, step.GetStep().GetCause(), fmt.Errorf(
		"step %d follows record %d, but the fold is at %d", step.GetSeq(), step.GetStep().GetAfter(), c.Handled)}
}

// FoldStep folds the recorded decisions of a step on a folded record, from an index on.
func (c *Cell) FoldStep(d *Delivery, step *journaletv1.Record, from int) (fail *Failure) {
	defer c.guard(d.Rec.GetSeq(), &fail)
	seq, at := d.Seq(), d.Rec.GetTime().AsTime()
	for i, e := range step.GetStep().GetDecisions()[from:] {
		id := messages.DecisionID(step.GetEpoch(), seq, c.Ref, from+i)
		if err := c.Decider.Evolve(actors.Event{ID: id, Seq: seq, Time: at, Author: c.Ref, Body: e}); err != nil {
			return failed(seq, err)
		}
	}
	return nil
}

func (c *Cell) evolve(in actors.Input) *Failure {
	for _, e := range in.Events {
		if needsManifest(e.Body) && e.Manifest == nil {
			return &Failure{journaletv1.DecisionError_DECISION_ERROR_MANIFEST_MISSING, in.Seq,
				fmt.Errorf("manifest %s is missing", digestOf(e.Body))}
		}
		if err := c.Decider.Evolve(e); err != nil {
			return failed(in.Seq, err)
		}
	}
	return nil
}

// guard turns a panic of a decider into a failure.
func (c *Cell) guard(seq uint64, fail **Failure) {
	if p := recover(); p != nil {
		err := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		*fail = &Failure{journaletv1.DecisionError_DECISION_ERROR_PANIC, seq, err}
	}
}

func failed(seq uint64, err error) *Failure {
	var illegal *actors.IllegalError
	code := journaletv1.DecisionError_DECISION_ERROR_UNSPECIFIED
	if errors.As(err, &illegal) {
		code = journaletv1.DecisionError_DECISION_ERROR_ILLEGAL_TRANSITION
	}
	return &Failure{code, seq, err}
}

// digestOf returns the digest of the manifest that an event carries, "" for none.
func digestOf(e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodUpdated:
		return k.PodUpdated.GetPod().GetDigest()
	case *journaletv1.Event_AdmissionRequested:
		return k.AdmissionRequested.GetDigest()
	case *journaletv1.Event_ResizeRequested:
		return k.ResizeRequested.GetDigest()
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
