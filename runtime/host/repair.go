package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

type panicError struct{ reason any }

func (p panicError) Error() string { return fmt.Sprintf("panic: %v", p.reason) }

// repair rebuilds a failed actor, which is suspended: it folds its state from the journal again and handles the pending
// records again. If it fails again it is quarantined: it keeps its last good state and handles nothing until the
// quarantine is lifted.
func (h *Host) repair(ref messages.Ref, m *member, first *fold.Failure) {
	h.opts.Log.Error("an actor failed; rebuilding it from the journal",
		"actor", ref.String(), "code", first.Code.String(), "err", first)
	c, pending, err := h.rebuild(ref)
	if err != nil {
		h.opts.Log.Error("cannot rebuild an actor", "actor", ref.String(), "err", err)
		err = fmt.Errorf("%w; rebuild: %w", first.Err, err)
		c := m.current()
		c.Diverged = true
		h.quarantine(ref, m, c, &fold.Failure{Code: first.Code, Cause: first.Cause, Err: err})
		return
	}
	if fail := h.handlePending(c, pending); fail != nil {
		h.quarantine(ref, m, h.lastGood(ref, c), fail)
		h.giveBack(ref, m, pending)
		return
	}
	m.replace(c)
}

// lastGood returns the cell of an actor after its last step. c, which has failed, is the last resort.
func (h *Host) lastGood(ref messages.Ref, c *fold.Cell) *fold.Cell {
	last, _, err := h.rebuild(ref)
	if err != nil {
		h.opts.Log.Error("cannot rebuild an actor", "actor", ref.String(), "err", err)
		c.Diverged = true
		return c
	}
	return last
}

// quarantine quarantines an actor and records it.
func (h *Host) quarantine(ref messages.Ref, m *member, c *fold.Cell, fail *fold.Failure) {
	c.Quarantined = fail.Quarantine(ref)
	m.replace(c)
	h.opts.Log.Error("quarantined an actor; the others keep running", "actor", ref.String(), "seq", fail.Cause,
		"code", fail.Code.String(), "err", firstLine(fail.Err.Error()))
	e := messages.NewEvent(c.Quarantined)
	if h.opts.Journal.Append(fact(h.opts.Now(), ref, e)) != nil {
		h.Outcome(messages.Agent, e) // the journal takes no record of an actor with this name
	}
}

// handlePending makes a cell handle pending records and appends its steps. It fails if a recorded step of the actor
// cannot be folded.
func (h *Host) handlePending(c *fold.Cell, pending []*fold.Delivery) *fold.Failure {
	if q := c.Quarantined; q != nil {
		return &fold.Failure{Code: q.GetCode(), Cause: q.GetCause(), Err: errors.New(q.GetMessage())}
	}
	for _, d := range pending {
		if d.Rec.GetSeq() <= c.Handled {
			continue
		}
		if fail := h.decide(c, d); fail != nil {
			return fail
		}
	}
	return nil
}

// rebuild folds one actor from the newest snapshots and the journal. It also returns the actor's pending records.
func (h *Host) rebuild(ref messages.Ref) (*fold.Cell, []*fold.Delivery, error) {
	if err := h.opts.Journal.Flush(h.ctx); err != nil {
		return nil, nil, err
	}
	f := fold.New(h.opts.Deciders, h.manifest)
	f.Mine = func(r messages.Ref) bool { return r == ref }
	if err := h.foldJournal(f); err != nil {
		return nil, nil, err
	}
	c := f.Cells[ref]
	if c == nil {
		return nil, nil, fmt.Errorf("%s: %w in the journal", ref, ErrNoActor)
	}
	for _, d := range f.Pending[ref] {
		f.Resolve(d)
	}
	return c, f.Pending[ref], nil
}

// ErrNotQuarantined is returned by LiftQuarantine for an actor that is not quarantined.
var ErrNotQuarantined = errors.New("is not quarantined")

// LiftQuarantine folds a quarantined actor from the journal again, and makes it handle the records that it has missed.
// With skip the actor does not handle the record that it failed on, nor records that it needs but retention has cut;
// that is recorded, so every later fold does the same. If the actor fails again it is quarantined again, and
// LiftQuarantine returns why. One call runs at a time.
func (h *Host) LiftQuarantine(ref messages.Ref, skip bool) error {
	h.lifting.Lock()
	defer h.lifting.Unlock()
	m := h.member(ref)
	if m == nil {
		return fmt.Errorf("%s: %w", ref, ErrNoActor)
	}
	// New records must wait: a quarantined actor skips them.
	m.box.pause()
	defer m.box.resume()
	was := m.current()
	if was.Quarantined == nil {
		return fmt.Errorf("%s %w", ref, ErrNotQuarantined)
	}
	lifted := &journaletv1.QuarantineLifted{Kind: ref.KindName(), Id: ref.ID}
	if skip {
		lifted.Skipped = was.Quarantined.GetCause()
	} else if was.Behind && was.Contained+1 < h.opts.Journal.CutTo() {
		return fmt.Errorf("%s needs the records from %d on, and retention has cut those before %d: "+
			"lift the quarantine without them (--skip)", ref, was.Contained+1, h.opts.Journal.CutTo())
	}
	if err := h.recordLifted(ref, lifted); err != nil {
		return err
	}
	c, pending, err := h.rebuild(ref)
	if err != nil {
		return err
	}
	if fail := h.handlePending(c, pending); fail != nil {
		h.quarantine(ref, m, h.lastGood(ref, c), fail)
		h.giveBack(ref, m, pending)
		return fail
	}
	m.replace(c)
	return nil
}

// giveBack records that a quarantined pod which its source has removed is gone, if nothing of it is on the runtime:
// what the node counts for it is free. What may run keeps its share, since nobody stops it before the quarantine is
// lifted.
func (h *Host) giveBack(ref messages.Ref, m *member, pending []*fold.Delivery) {
	p, ok := m.current().Decider.(*pod.Actor)
	if !ok {
		return
	}
	if removed, mayRun := remains(p, pending); !removed || mayRun || !m.gaveBack.CompareAndSwap(false, true) {
		return
	}
	h.opts.Log.Warn("a quarantined pod that was removed holds nothing of the node any more", "actor", ref.String())
	h.Outcome(ref, messages.NewEvent(&journaletv1.PodTerminated{
		Uid: ref.ID, Phase: journaletv1.PodPhase_POD_PHASE_FAILED,
	}))
	h.Outcome(ref, messages.NewEvent(&journaletv1.PodFinished{Uid: ref.ID, Source: p.Pod().GetSource()}))
}

// remains returns what is left of a quarantined pod by its last good state and the records that it has missed: whether
// its source has removed it, and whether something of it may be on the runtime, or come there. It may not once an
// inspection has found nothing that began after the last sandbox was created, and no call is left that creates one or
// a container.
func remains(p *pod.Actor, missed []*fold.Delivery) (removed, mayRun bool) {
	state := p.Pod()
	removed, mayRun = state.GetRemoved(), p.OnNode()
	newest, created := state.GetObserved(), state.GetSandboxCreatedAt().AsTime()
	creating := map[string]*journaletv1.CallRequested{}
	for id, c := range state.GetCalls() {
		if r := c.GetRequest(); r.GetRunSandbox() != nil || r.GetStartContainer() != nil {
			creating[id] = r
		}
	}
	for _, d := range missed {
		events := messages.Events(d.Rec)
		for _, i := range d.Indices {
			switch k := events[i].GetKind().(type) {
			case *journaletv1.Event_PodUpdated:
				switch k.PodUpdated.GetOperation() {
				case journaletv1.PodOperation_POD_OPERATION_REMOVE:
					removed = true
				case journaletv1.PodOperation_POD_OPERATION_ADD:
					removed = false
				}
			case *journaletv1.Event_PodObserved:
				mayRun = true // the runtime has had something of it, whatever the journal knows
				if o := k.PodObserved; !o.GetObservedAt().AsTime().Before(newest.GetObservedAt().AsTime()) {
					newest = o
				}
			case *journaletv1.Event_CallFinished:
				f := k.CallFinished
				if at := f.GetEndedAt().AsTime(); creating[f.GetIntentId()] != nil && at.After(created) {
					created = at
				}
				delete(creating, f.GetIntentId())
			case *journaletv1.Event_CallDropped:
				delete(creating, k.CallDropped.GetIntentId())
			}
		}
	}
	return removed, mayRun && (len(creating) > 0 || !isGone(newest) || !newest.GetObservedAt().AsTime().After(created))
}

// isGone reports whether an inspection of a pod has found nothing of it.
func isGone(o *journaletv1.PodObserved) bool {
	return o != nil && len(o.GetSandboxes()) == 0 && len(o.GetContainers()) == 0
}

// showsGone reports whether a delivery shows that the runtime has nothing of a pod any more: a removed quarantined pod
// may then give back what it holds.
func showsGone(d *fold.Delivery) bool {
	events := messages.Events(d.Rec)
	return slices.ContainsFunc(d.Indices, func(i int) bool { return isGone(events[i].GetPodObserved()) })
}

// bringsManifest reports whether a delivery has a manifest that changed: the reason of a quarantine may be gone with
// the one before.
func bringsManifest(d *fold.Delivery) bool {
	events := messages.Events(d.Rec)
	return slices.ContainsFunc(d.Indices, func(i int) bool {
		return events[i].GetPodUpdated() != nil || len(events[i].GetManifestsRead().GetChanged()) > 0
	})
}

func (h *Host) recordLifted(ref messages.Ref, lifted *journaletv1.QuarantineLifted) error {
	e := messages.NewEvent(lifted)
	if h.opts.Journal.Append(fact(h.opts.Now(), ref, e)) == nil {
		return nil
	}
	return h.opts.Journal.Append(fact(h.opts.Now(), messages.Agent, e)) // as in quarantine
}

// catchUpPause is the pause between two attempts to read the journal.
const catchUpPause = time.Second

// pause waits for d; it returns false if the host stops first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// catchUp puts the skipped records of a lagging actor into its mailbox: the first one, and what the journal has after
// it.
func (h *Host) catchUp(ref messages.Ref, m *member, first *fold.Delivery) {
	if !h.refill(m, first) {
		return
	}
	from, joined := first.Seq()+1, fold.Parts{}
	for {
		to, before := h.opts.Journal.Last(), joined
		err := h.opts.Journal.Read(h.ctx, from, to, "", func(rec *journaletv1.Record, _ int) error {
			if rec = joined.Join(rec); rec == nil {
				return nil
			}
			d := fold.Route(rec, func() []messages.Ref { return []messages.Ref{ref} })[ref]
			if d == nil {
				return nil
			}
			d.Resolve(h.manifest)
			if !h.refill(m, d) {
				return h.ctx.Err()
			}
			return nil
		})
		if h.ctx.Err() != nil {
			return
		}
		if err != nil {
			h.opts.Log.Error("cannot read the journal for a lagging actor; will retry", "actor", ref.String(), "err", err)
			if joined = before; !pause(h.ctx, catchUpPause) {
				return
			}
			continue
		}
		if from = to + 1; m.box.caughtUp(to) {
			return
		}
	}
}

// refill puts a skipped record into a mailbox as soon as there is room; it returns false if the host stops first.
func (h *Host) refill(m *member, d *fold.Delivery) bool {
	for !m.box.refill(d) {
		select {
		case <-m.box.drained:
		case <-h.ctx.Done():
			return false
		}
	}
	return true
}
