package host

import (
	"context"
	"fmt"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Retain takes a set of snapshots and then calls cut to remove the oldest records while no fold runs; cut gets the
// newest complete set. If no new set can be taken, because an actor lags, that is the previous one; without one cut is
// not called. ctx bounds everything.
func (h *Host) Retain(ctx context.Context, cut func(barrier uint64, set []*journaletv1.Snapshot) error) error {
	if err := h.Snapshot(ctx); err != nil {
		h.opts.Log.Warn("retention uses older snapshots and cuts less", "err", err)
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

// checkSnapshots detects that the snapshots are missing that replace the records cut by retention. The rest of such a
// journal cannot be folded: it has steps on missing records. So the whole journal counts as lost for the state, pods
// are found from the runtime and the manifests, and the records remain readable.
func (h *Host) checkSnapshots() error {
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
	h.opts.Log.Error("the snapshots that replace the cut records are missing: starting without a state, "+
		"with what the runtime shows", "first", first, "snapshots", barrier, "last", last)
	return nil
}
