package host

import (
	"context"
	"fmt"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

type panicError struct{ reason any }

func (p panicError) Error() string { return fmt.Sprintf("panic: %v", p.reason) }

// repair rebuilds a failed actor, which is suspended: it folds its state from the journal again and handles the pending
// records again. If it fails again it is quarantined: it keeps its last good state and handles nothing until the
// quarantine is lifted.
func (h *Host) repair(ref messages.Ref, m *member, first *failure) {
	h.opts.Log.Error("an actor failed; rebuilding it from the journal",
		"actor", ref.String(), "code", first.code.String(), "err", first)
	c, pending, err := h.rebuild(ref)
	if err != nil {
		h.opts.Log.Error("cannot rebuild an actor", "actor", ref.String(), "err", err)
		err = fmt.Errorf("%w; rebuild: %w", first.err, err)
		h.quarantine(ref, m, m.current(), &failure{first.code, first.cause, err})
		return
	}
	if fail := h.handlePending(c, pending); fail != nil {
		last, _, err := h.rebuild(ref)
		if err != nil {
			last = c
		}
		h.quarantine(ref, m, last, fail)
		return
	}
	m.replace(c)
}

// quarantine quarantines an actor and records it.
func (h *Host) quarantine(ref messages.Ref, m *member, c *cell, fail *failure) {
	c.quarantined = fail.quarantine(ref)
	m.replace(c)
	h.opts.Log.Error("quarantined an actor; the others keep running", "actor", ref.String(), "seq", fail.cause,
		"code", fail.code.String(), "err", firstLine(fail.err.Error()))
	h.Outcome(ref, messages.NewEvent(c.quarantined))
}

// handlePending makes a cell handle pending records and appends its steps.
func (h *Host) handlePending(c *cell, pending []*delivery) *failure {
	for _, d := range pending {
		if d.rec.GetSeq() <= c.handled {
			continue
		}
		step, fail := c.handle(d, h.opts.Epoch, h.opts.Now())
		if fail != nil {
			return fail
		}
		if step != nil {
			h.opts.Journal.Append(step)
		}
	}
	return nil
}

// rebuild folds one actor from the newest snapshots and the journal. It also returns the actor's pending records.
func (h *Host) rebuild(ref messages.Ref) (*cell, []*delivery, error) {
	if err := h.opts.Journal.Flush(h.ctx); err != nil {
		return nil, nil, err
	}
	f := newFold(h.opts.Deciders, h.manifest)
	f.only = &ref
	if err := h.foldJournal(f); err != nil {
		return nil, nil, err
	}
	c := f.cells[ref]
	if c == nil {
		return nil, nil, fmt.Errorf("%s: %w in the journal", ref, ErrNoActor)
	}
	for _, d := range f.pending[ref] {
		f.resolve(d)
	}
	return c, f.pending[ref], nil
}

// LiftQuarantine makes a quarantined actor handle the records that it has skipped.
func (h *Host) LiftQuarantine(ref messages.Ref) error {
	m := h.member(ref)
	if m == nil {
		return fmt.Errorf("%s: %w", ref, ErrNoActor)
	}
	// New records must wait: a quarantined actor skips them.
	m.box.pause()
	defer m.box.resume()
	h.Outcome(ref, messages.NewEvent(&journaletv1.QuarantineLifted{Kind: ref.KindName(), Id: ref.ID}))
	c, pending, err := h.rebuild(ref)
	if err != nil {
		return err
	}
	c.quarantined = nil
	if fail := h.handlePending(c, pending); fail != nil {
		last, _, err := h.rebuild(ref)
		if err != nil {
			return err
		}
		h.quarantine(ref, m, last, fail)
		return fail
	}
	m.replace(c)
	return nil
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

// catchUp puts the skipped records of a lagging actor into its mailbox, read from the journal.
func (h *Host) catchUp(ref messages.Ref, m *member, from uint64) {
	for {
		to := h.opts.Journal.Last()
		err := h.opts.Journal.Read(h.ctx, from, to, "", func(rec *journaletv1.Record, _ int) error {
			d := route(rec, func() []messages.Ref { return []messages.Ref{ref} })[ref]
			if d == nil {
				return nil
			}
			resolveWith(d, h.manifest)
			for !m.box.refill(d) {
				select {
				case <-m.box.drained:
				case <-h.ctx.Done():
					return h.ctx.Err()
				}
			}
			return nil
		})
		if h.ctx.Err() != nil {
			return
		}
		if err != nil {
			h.opts.Log.Error("cannot read the journal for a lagging actor; will retry", "actor", ref.String(), "err", err)
			if !pause(h.ctx, catchUpPause) {
				return
			}
			continue
		}
		if from = to + 1; m.box.caughtUp(to) {
			return
		}
	}
}
