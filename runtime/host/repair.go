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

// repair rebuilds an actor that failed: its state is folded again from the journal and the records
// it has no step for are handled again. If it fails on one of them again it is quarantined; it then
// keeps the last good state and handles nothing until it is released. The actor is suspended.
func (h *Host) repair(ref messages.Ref, m *member, first *failure) {
	h.opts.Log.Error("an actor failed and is rebuilt from the journal", "actor", ref.String(), "code", first.code.String(), "err", first)
	c, open, err := h.rebuild(ref)
	if err != nil {
		h.opts.Log.Error("an actor could not be rebuilt", "actor", ref.String(), "err", err)
		h.quarantine(ref, m, m.current(), &failure{first.code, first.cause, fmt.Errorf("%w; it could not be rebuilt: %w", first.err, err)})
		return
	}
	if fail := h.again(c, open); fail != nil {
		last, _, err := h.rebuild(ref)
		if err != nil {
			last = c
		}
		h.quarantine(ref, m, last, fail)
		return
	}
	m.replace(c)
}

// quarantine takes an actor out of service and says so in the journal.
func (h *Host) quarantine(ref messages.Ref, m *member, c *cell, fail *failure) {
	c.quarantined = fail.quarantine(ref)
	m.replace(c)
	h.opts.Log.Error("an actor is quarantined; the others go on", "actor", ref.String(), "seq", fail.cause,
		"code", fail.code.String(), "err", firstLine(fail.err.Error()))
	h.Outcome(ref, &journaletv1.Event{Kind: &journaletv1.Event_Quarantined{Quarantined: c.quarantined}})
}

// again handles records that an actor has no step for.
func (h *Host) again(c *cell, open []*delivery) *failure {
	for _, d := range open {
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

// rebuild folds one actor from the newest snapshots and the journal. It gives the records that it
// has no step for, too.
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
	for _, d := range f.open[ref] {
		f.resolve(d)
	}
	return c, f.open[ref], nil
}

// Release puts a quarantined actor back into service: it handles what it missed.
func (h *Host) Release(ref messages.Ref) error {
	m := h.member(ref)
	if m == nil {
		return fmt.Errorf("%s: %w", ref, ErrNoActor)
	}
	// What comes in meanwhile waits: a quarantined actor leaves it out, and it would be missing.
	m.box.hold()
	defer m.box.let()
	h.Outcome(ref, &journaletv1.Event{Kind: &journaletv1.Event_QuarantineLifted{
		QuarantineLifted: &journaletv1.QuarantineLifted{Kind: ref.KindName(), Id: ref.ID},
	}})
	c, open, err := h.rebuild(ref)
	if err != nil {
		return err
	}
	c.quarantined = nil
	if fail := h.again(c, open); fail != nil {
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

// catchUpPause is the wait before the journal is read again after it could not be.
const catchUpPause = time.Second

// pause waits; it reports false if the host stops first.
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

// catchUp brings a lagging actor the records that were left out of its mailbox, from the journal.
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
			h.opts.Log.Error("a lagging actor could not read the journal and tries again", "actor", ref.String(), "err", err)
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
