package host

import (
	"context"
	"fmt"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Retain takes a set of snapshots, and then lets cut remove records from the journal's front while
// nobody folds. cut gets the newest complete set and its barrier: every record above the barrier must
// stay. Where no new set can be taken, because an actor is quarantined or lags, it is the set before,
// and without one cut is not called. ctx bounds all of it.
func (h *Host) Retain(ctx context.Context, cut func(barrier uint64, set []*journaletv1.Snapshot) error) error {
	if err := h.Snapshot(ctx); err != nil {
		h.opts.Log.Warn("retention has to go by older snapshots and cuts less", "err", err)
	}
	h.folding.Lock()
	defer h.folding.Unlock()
	barrier, set, err := h.opts.Snapshots.Load(ctx)
	if err != nil {
		return fmt.Errorf("retention: load snapshots: %w", err)
	}
	if barrier == 0 {
		return nil
	}
	return cut(barrier, set)
}

// gap notices that the snapshots are gone which stand for records that retention has cut. What is left
// of such a journal folds to nothing sensible: steps on records that are not there. So all of it
// counts as lost for the state, as if the journal were gone, and pods are found again by what the
// runtime shows and the manifests say; the records stay to be read.
func (h *Host) gap() error {
	barrier, _, err := h.opts.Snapshots.Load(h.ctx)
	if err != nil {
		return fmt.Errorf("load snapshots: %w", err)
	}
	first, last := h.opts.Journal.CutTo(), h.opts.Journal.Last()
	if barrier+1 >= first || last < first {
		return nil
	}
	h.floor = last
	h.sinceSnapshot = snapshotEvery // with the first records of this run
	h.opts.Log.Error("the snapshots that stand for what retention has cut are gone: the agent begins without a state, and takes up what the runtime shows",
		"first", first, "snapshots", barrier, "last", last)
	return nil
}
