package events

import (
	"context"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The fold has each pod as it is now. The next incarnation under its UID may have another name: an event of an earlier
// record is about the pod by the name that it had then.

// nameAsBefore has the deriver know the pods of the fold as they were before the record from. Where that was set is
// looked for in at most maxRecords records before it.
func (d *Driver) nameAsBefore(ctx context.Context, from uint64) error {
	sought, err := d.changedSince(ctx, from)
	if err != nil || len(sought) == 0 {
		return err
	}
	return readBack(from, func(first, to uint64) (done bool, err error) {
		found := map[string]*journaletv1.PodRef{}
		err = d.opts.Read(ctx, first, to, func(rec *journaletv1.Record) error {
			for _, e := range rec.GetStep().GetDecisions() {
				if u := e.GetPodUpdated(); added(u) && sought[u.GetPod().GetUid()] {
					found[u.GetPod().GetUid()] = u.GetPod()
				}
			}
			return ctx.Err()
		})
		for uid, pod := range found {
			d.deriver.pods[uid] = pod
			delete(sought, uid)
		}
		return len(sought) == 0, err
	})
}

// healthAsBefore has the deriver know the runtime's health as it was before the record from: the last change within
// maxRecords before, the fold's if nothing has changed since. A sandbox that is requested while the network is not
// ready has an event of its own.
func (d *Driver) healthAsBefore(ctx context.Context, from uint64) error {
	since, err := d.newestHealth(ctx, from, d.last)
	if err != nil || since == nil {
		d.deriver.health = d.health
		return err
	}
	return readBack(from, func(first, to uint64) (done bool, err error) {
		d.deriver.health, err = d.newestHealth(ctx, first, to)
		return d.deriver.health != nil, err
	})
}

// readBack calls read with ranges of contextRecords, the newest first, of the maxRecords before the record from, until
// it is done or fails.
func readBack(from uint64, read func(first, to uint64) (done bool, err error)) error {
	for to := from - 1; to > 0 && from-to <= maxRecords; {
		first := max(to, contextRecords) - contextRecords + 1
		if done, err := read(first, to); done || err != nil {
			return err
		}
		to = first - 1
	}
	return nil
}

// newestHealth returns the last change of the runtime's health in records; nil without one.
func (d *Driver) newestHealth(ctx context.Context, first, last uint64) (*journaletv1.RuntimeHealthChanged, error) {
	var newest *journaletv1.RuntimeHealthChanged
	err := d.opts.Read(ctx, first, last, func(rec *journaletv1.Record) error {
		for _, e := range messages.Events(rec) {
			if h := e.GetRuntimeHealthChanged(); h != nil {
				newest = h
			}
		}
		return ctx.Err()
	})
	return newest, err
}

// changedSince returns the pods of the fold that were added or forgotten from a record on, by UID. A pod of the API
// server keeps its name.
func (d *Driver) changedSince(ctx context.Context, from uint64) (map[string]bool, error) {
	changed := map[string]bool{}
	err := d.opts.Read(ctx, from, d.last, func(rec *journaletv1.Record) error {
		for _, e := range rec.GetStep().GetDecisions() {
			u, uid := e.GetPodUpdated(), e.GetPodForgotten().GetUid()
			if u != nil {
				uid = u.GetPod().GetUid()
			}
			if d.deriver.pods[uid] != nil && (u == nil || added(u) && u.GetPod().GetApi() == nil) {
				changed[uid] = true
			}
		}
		return ctx.Err()
	})
	return changed, err
}

// added reports whether a pod gets its name. It keeps it until it is added again.
func added(u *journaletv1.PodUpdated) bool {
	return u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_ADD
}
