package agent

import (
	"context"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Pace of retention.
const (
	// retentionEvery is how often the age of the oldest records is checked. The journal itself signals when it has
	// exceeded its size.
	retentionEvery = time.Hour
	// retentionTimeout bounds one cut with its snapshots and manifests; the next check does the rest.
	retentionTimeout = 10 * time.Minute
)

// retain keeps the journal within its bounds until ctx ends. A failure is logged and retried at the next check: a
// growing journal is no reason to stop.
func (a *agent) retain(ctx context.Context) error {
	keep, err := a.cfg.Retention()
	if err != nil {
		return err
	}
	if !keep.Bounded() {
		<-ctx.Done()
		return nil
	}
	pace := time.NewTicker(retentionEvery)
	defer pace.Stop()
	for {
		if err := a.cut(ctx, keep); err != nil && ctx.Err() == nil {
			a.log.Warn("cannot cut the journal; will retry within the hour", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		case <-a.bus.Journal().Full():
		}
	}
}

// cut removes records that are too old or too many, and manifests that are no longer referenced. It takes snapshots
// first if there is something to cut.
func (a *agent) cut(ctx context.Context, keep bus.Retention) error {
	ctx, cancel := context.WithTimeout(ctx, retentionTimeout)
	defer cancel()
	j, now := a.bus.Journal(), time.Now()
	first, err := j.Excess(ctx, keep, now)
	if err != nil {
		return err
	}
	if first <= j.First() {
		// Nothing to cut. Retain also measures, so that the journal can signal its size.
		_, err := j.Retain(ctx, keep, 0, now)
		return err
	}
	var gone uint64
	var states []*journaletv1.Snapshot
	err = a.host.Retain(ctx, func(barrier uint64, set []*journaletv1.Snapshot) (err error) {
		gone, err = j.Retain(ctx, keep, barrier, now)
		states = set
		return err
	})
	if err != nil || gone == 0 {
		return err
	}
	unreferenced, err := a.bus.UnreferencedManifests(ctx, states)
	if err != nil {
		return err
	}
	n, err := a.bus.Manifests().Collect(ctx, unreferenced, bus.ManifestGrace)
	if err != nil {
		return err
	}
	a.log.Info("cut the journal", "records", gone, "first", j.First(), "manifests", n)
	return nil
}
