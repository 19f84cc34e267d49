package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
)

// State is an actor's state at a record of the journal.
type State struct {
	Actor messages.Ref
	// Seq is the record at which the state is.
	Seq uint64
	// Handled is the last record that it contains.
	Handled uint64
	// Pending are the records up to Seq that the actor has received and not handled: its step on the first of them is
	// after Seq.
	Pending []uint64
	// Quarantined is set while the actor is quarantined.
	Quarantined *journaletv1.Quarantined
	// Message is the state, such as *journaletv1.PodState.
	Message proto.Message
}

// StateAt returns the state of an actor after a record was stored, 0 for the last one: all that it had handled by
// then. ErrNoActor if it did not exist then, ErrGone and ErrNoRecord for a record that is not there.
func StateAt(ctx context.Context, src history.Reader, ref messages.Ref, seq uint64) (*State, error) {
	seq, err := check(src, seq)
	if err != nil {
		return nil, err
	}
	b, err := baseBelow(ctx, src, seq)
	if err != nil {
		return nil, err
	}
	f := fold.New(fold.AllDeciders, newLibrary(ctx, src).get)
	f.Mine = func(r messages.Ref) bool { return r == ref }
	err = guarded(0, func() error { return beginAlone(b, f, ref) })
	if err != nil {
		return nil, err
	}
	s := newSieve(ref)
	err = readOf(ctx, src, ref, b.from, seq, func(e history.Entry) error {
		if !s.concerns(e.Bytes) {
			return nil
		}
		rec, err := decode(e)
		if err != nil {
			return err
		}
		return guarded(e.Seq, func() error { b.fold(f, rec); return nil })
	})
	if err != nil {
		return nil, err
	}
	var st *State
	err = guarded(seq, func() error { st, err = stateIn(f, ref, seq); return err })
	return st, err
}

// readOf passes the records that may concern an actor, and others.
func readOf(ctx context.Context, src history.Reader, ref messages.Ref, from, to uint64,
	f func(history.Entry) error) error {
	if from > to {
		return nil
	}
	indexed, ok := src.(interface {
		ReadOf(ctx context.Context, ref messages.Ref, from, to uint64, f func(history.Entry) error) error
	})
	if ok {
		return indexed.ReadOf(ctx, ref, from, to, f)
	}
	return src.Read(ctx, from, to, f)
}

// beginAlone begins the fold of one actor. It fails if the actor's manifest is missing.
func beginAlone(b base, f *fold.Fold, ref messages.Ref) error {
	lost, err := b.begin(f)
	if lost[ref] {
		return fmt.Errorf("the state of %s: %w", ref, history.ErrNoManifest)
	}
	return err
}

// StatesAt returns the states of all actors after a record was stored, 0 for the last one, sorted by actor.
func StatesAt(ctx context.Context, src history.Reader, seq uint64, o Options) ([]*State, error) {
	seq, err := check(src, seq)
	if err != nil {
		return nil, err
	}
	b, err := baseBelow(ctx, src, seq)
	if err != nil {
		return nil, err
	}
	p := newPipeline(o, newLibrary(ctx, src).get, func(*fold.Fold) {})
	if err := p.run(ctx, src, b, seq); err != nil {
		return nil, err
	}
	var all []*State
	for _, w := range p.workers {
		for ref := range w.fold.Cells {
			err := guarded(seq, func() error {
				st, err := stateIn(w.fold, ref, seq)
				all = append(all, st)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(all, func(a, b *State) int { return compareRefs(a.Actor, b.Actor) })
	return all, nil
}

// ErrNoActor means that an actor does not exist at a record: not yet, or no more.
var ErrNoActor = errors.New("there is no such actor")

// check returns the record that is meant, 0 being the last one.
func check(src history.Reader, seq uint64) (uint64, error) {
	first, last := src.Bounds()
	switch {
	case first > last:
		return 0, fmt.Errorf("%w: the journal is empty", history.ErrNoRecord)
	case seq == 0:
		return last, nil
	case seq < first:
		return 0, fmt.Errorf("record %d: %w: those from %d to %d remain", seq, history.ErrGone, first, last)
	case seq > last:
		return 0, fmt.Errorf("record %d: %w: the last one is %d", seq, history.ErrNoRecord, last)
	}
	return seq, nil
}

// stateIn returns an actor's state in a fold that has read all records up to seq.
func stateIn(f *fold.Fold, ref messages.Ref, seq uint64) (*State, error) {
	c := f.Cells[ref]
	if c == nil {
		return nil, fmt.Errorf("%s at record %d: %w", ref, seq, ErrNoActor)
	}
	pending := f.Pending[ref]
	if c.Quarantined == nil {
		n, err := quiet(f, c, pending)
		if err != nil {
			return nil, err
		}
		pending = pending[n:]
	}
	st := &State{Actor: ref, Seq: seq, Handled: c.Handled, Quarantined: c.Quarantined, Message: c.Decider.State()}
	for _, d := range pending {
		st.Pending = append(st.Pending, d.Seq())
	}
	return st, nil
}

// quiet folds the actor's pending records up to the first record that the actor decides something on, and returns how
// many it folded: no later step is needed to know that the actor has handled them.
func quiet(f *fold.Fold, c *fold.Cell, pending []*fold.Delivery) (int, error) {
	if len(pending) == 0 {
		return 0, nil
	}
	trial, err := clone(f, c)
	if err != nil {
		return 0, err
	}
	for n, d := range pending {
		f.Resolve(d)
		decides := func(*journaletv1.Event) error { return errDiffers }
		if trial.Decide(d, 0, decides) != nil || c.Refold(d, nil) != nil {
			return n, nil
		}
	}
	return len(pending), nil
}

// clone returns another cell of an actor in the same state.
func clone(f *fold.Fold, c *fold.Cell) (*fold.Cell, error) {
	b, err := proto.Marshal(c.Decider.State())
	if err != nil {
		return nil, fmt.Errorf("state of %s: %w", c.Ref, err)
	}
	return f.Cell(&journaletv1.Snapshot{Actor: c.Ref.Proto(), Handled: c.Handled, State: b})
}
