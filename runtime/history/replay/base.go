package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
)

// base is what a fold begins with.
type base struct {
	// barrier is the last record that the snapshots contain, 0 for the beginning of the journal.
	barrier uint64
	snaps   []*journaletv1.Snapshot
	// from is the first record to read: one before the barrier if a quarantined actor needs it.
	from uint64
}

// errNoBase is the error for a journal whose first records are missing, without a set of snapshots that replaces them.
type errNoBase struct{ first uint64 }

func (e errNoBase) Error() string {
	return fmt.Sprintf("the records before %d are gone, and no set of snapshots replaces them: nothing can be folded",
		e.first)
}

// errRedacted is the error for a bundle that cannot be folded.
var errRedacted = errors.New("the bundle is redacted: it has no manifests and no states, so nothing can be folded; " +
	"export the journal without --redact")

// checkFoldable returns an error for a source without the manifests.
func checkFoldable(src history.Reader) error {
	if r, ok := src.(interface{ Redacted() bool }); ok && r.Redacted() {
		return errRedacted
	}
	return nil
}

// firstBase returns the earliest state that a journal can be folded from: its beginning, or the first set of snapshots
// that contains all records before the first record that is left.
func firstBase(ctx context.Context, src history.Reader) (base, error) {
	if err := checkFoldable(src); err != nil {
		return base{}, err
	}
	first, last := src.Bounds()
	if first <= 1 {
		return base{from: 1}, nil
	}
	barriers, err := src.Snapshots(ctx)
	if err != nil {
		return base{}, err
	}
	for _, b := range barriers {
		if b+1 >= first && b <= last {
			return loadBase(ctx, src, b)
		}
	}
	return base{}, errNoBase{first}
}

// baseBelow returns the latest state that contains no record after seq.
func baseBelow(ctx context.Context, src history.Reader, seq uint64) (base, error) {
	if err := checkFoldable(src); err != nil {
		return base{}, err
	}
	first, _ := src.Bounds()
	barriers, err := src.Snapshots(ctx)
	if err != nil {
		return base{}, err
	}
	for i := len(barriers) - 1; i >= 0; i-- {
		if b := barriers[i]; b <= seq && b+1 >= first {
			return loadBase(ctx, src, b)
		}
	}
	if first <= 1 {
		return base{from: 1}, nil
	}
	return base{}, errNoBase{first}
}

func loadBase(ctx context.Context, src history.Reader, barrier uint64) (base, error) {
	snaps, err := src.Snapshot(ctx, barrier)
	if err != nil {
		return base{}, err
	}
	b := base{barrier: barrier, snaps: snaps, from: barrier + 1}
	first, _ := src.Bounds()
	for _, s := range snaps {
		if s.GetQuarantined() != nil {
			b.from = min(b.from, max(first, s.GetContained()+1))
		}
	}
	return b, nil
}

// begin restores the base's actors in a fold. The fold leaves out the actors whose manifest is missing, which it
// returns.
func (b base) begin(f *fold.Fold) (lost map[messages.Ref]bool, err error) {
	f.Barrier = b.barrier
	for _, s := range b.snaps {
		err := f.Restore(s)
		if errors.Is(err, history.ErrNoManifest) {
			if lost == nil {
				lost = map[messages.Ref]bool{}
			}
			lost[messages.RefOf(s.GetActor())] = true
		} else if err != nil {
			return lost, err
		}
	}
	if mine := f.Mine; lost != nil {
		f.Mine = func(ref messages.Ref) bool { return !lost[ref] && mine(ref) }
	}
	f.CreateSingletons()
	return lost, nil
}

// run sets the run of the agent that the fold begins in.
func (b base) run(f *fold.Fold) error {
	for _, s := range b.snaps {
		if messages.RefOf(s.GetActor()) == messages.Agent {
			return f.Restore(s)
		}
	}
	return nil
}

// fold folds the next record after begin.
func (b base) fold(f *fold.Fold, rec *journaletv1.Record) {
	if rec.GetSeq() <= b.barrier {
		f.Missed(rec)
	} else {
		f.Record(rec)
	}
}
