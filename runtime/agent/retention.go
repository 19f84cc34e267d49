package agent

import (
	"context"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Pace of retention.
const (
	// retentionEvery is how often the age of the journal's front is looked at. Its size is told by the
	// journal itself, once it has outgrown its bound.
	retentionEvery = time.Hour
	// retentionTimeout bounds one cut with all that belongs to it; what is not done then is done at the
	// next look.
	retentionTimeout = 10 * time.Minute
)

// retain keeps the journal within its bounds until ctx ends. What fails is logged and tried again with
// the next look: a journal that grows is no reason to stop.
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
			a.log.Warn("the journal could not be cut; it is tried again within the hour", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		case <-a.bus.Journal().Full():
		}
	}
}

// cut takes from the journal's front what is too old or too much, and the manifests that nothing names
// any more. It takes snapshots first, and only where there is something to cut.
func (a *agent) cut(ctx context.Context, keep bus.Retention) error {
	ctx, cancel := context.WithTimeout(ctx, retentionTimeout)
	defer cancel()
	j, now := a.bus.Journal(), time.Now()
	first, err := j.Excess(ctx, keep, now)
	if err != nil {
		return err
	}
	if first <= j.First() {
		// Nothing to cut; it is measured all the same, so that the journal tells when it is too large.
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
	unnamed, err := a.bus.Unnamed(ctx, states)
	if err != nil {
		return err
	}
	n, err := a.bus.Manifests().Collect(ctx, unnamed, bus.ManifestGrace)
	if err != nil {
		return err
	}
	a.log.Info("the journal was cut", "records", gone, "first", j.First(), "manifests", n)
	return nil
}
