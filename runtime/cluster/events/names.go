package events

import (
	"context"

	"github.com/journalet/journalet/messages/journaletv1"
)

// The fold has each pod as it is now. Its manifest may have given it another name under its UID since: an event of an
// earlier record is about the pod by the name that it had then.

// nameAsBefore has the deriver know the pods of the fold as they were before the record from. Where that was set is
// looked for in at most maxRecords records before it.
func (d *Driver) nameAsBefore(ctx context.Context, from uint64) error {
	sought, err := d.changedSince(ctx, from)
	for to := from - 1; err == nil && len(sought) > 0 && to > 0 && from-to <= maxRecords; {
		first := max(to, contextRecords) - contextRecords + 1
		found := map[string]*journaletv1.PodRef{}
		err = d.opts.Read(ctx, first, to, func(rec *journaletv1.Record) error {
			for _, e := range rec.GetStep().GetDecisions() {
				if pod := e.GetPodUpdated().GetPod(); sought[pod.GetUid()] {
					found[pod.GetUid()] = pod
				}
			}
			return ctx.Err()
		})
		for uid, pod := range found {
			d.deriver.pods[uid] = pod
			delete(sought, uid)
		}
		to = first - 1
	}
	return err
}

// changedSince returns the pods of the fold that no record from one on names before it changes them, by UID. It has the
// deriver know the others as these records name them. A pod of the API server keeps its name.
func (d *Driver) changedSince(ctx context.Context, from uint64) (map[string]bool, error) {
	named, changed := map[string]bool{}, map[string]bool{}
	err := d.opts.Read(ctx, from, d.last, func(rec *journaletv1.Record) error {
		for _, e := range rec.GetStep().GetDecisions() {
			u, uid := e.GetPodUpdated(), e.GetPodForgotten().GetUid()
			if u != nil {
				uid = u.GetPod().GetUid()
			}
			if d.deriver.pods[uid] == nil || named[uid] {
				continue
			}
			named[uid] = true
			switch {
			case u == nil, u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_UPDATE && u.GetPod().GetApi() == nil:
				changed[uid] = true
			default:
				d.deriver.pods[uid] = u.GetPod()
			}
		}
		return ctx.Err()
	})
	return changed, err
}
