package agent

import (
	"context"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Pace of retention.
const (
	// retentionEvery is how often the age of the oldest records is checked at least, retentionMost at most. The journal
	// itself signals when it has exceeded its size.
	retentionEvery = time.Hour
	retentionMost  = 5 * time.Minute
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
	pace := time.NewTicker(retentionPace(keep))
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

// retentionPace returns the time between two checks. A cut for age ends behind a set of snapshots, so sets are taken
// several times within the age that is kept.
func retentionPace(keep bus.Retention) time.Duration {
	if keep.Age == 0 {
		return retentionEvery
	}
	return min(max(keep.Age/bus.MaxSets, retentionMost), retentionEvery)
}

// cut removes records that are too old or too many, and manifests that are no longer referenced. It takes snapshots
// first if there is something to cut.
func (a *agent) cut(ctx context.Context, keep bus.Retention) error {
	ctx, cancel := context.WithTimeout(ctx, retentionTimeout)
	defer cancel()
	j, now := a.bus.Journal(), time.Now()
	sets, err := a.bus.Snapshots().Sets(ctx)
	if err != nil {
		return err
	}
	first, err := j.Excess(ctx, keep, sets, now)
	if err != nil {
		return err
	}
	if first > j.First() {
		_, err := a.cutBehindSnapshots(ctx, keep, func(sets []bus.SnapshotSet) (uint64, error) {
			return j.Retain(ctx, keep, sets, now)
		})
		return err
	}
	if snapshotDue(ctx, keep, sets, j, now) {
		if err := a.host.Snapshot(ctx); err != nil {
			a.log.Warn("cannot take snapshots for retention; will retry", "err", err)
		}
	}
	// No record to cut. Manifests of earlier cuts may be there, which were too young.
	if exceed, err := a.bus.ManifestsExceed(ctx, keep); err != nil {
		return err
	} else if exceed {
		a.cutting.Lock()
		_, err = a.bus.RemoveUnreferenced(ctx, keep)
		a.cutting.Unlock()
		if err != nil {
			return err
		}
	}
	// Retain also measures, so that the journal can signal its size.
	_, err = j.Retain(ctx, keep, nil, now)
	return err
}

// snapshotDue reports whether a cut for age will soon need a set of snapshots of now: on a quiet node there are too few
// records for one.
func snapshotDue(ctx context.Context, keep bus.Retention, sets []bus.SnapshotSet, j *bus.Journal, now time.Time) bool {
	if keep.Age == 0 || j.Last() == 0 {
		return false
	}
	if len(sets) == 0 { // the journal folds from its first record
		first, err := j.Get(ctx, j.First())
		return err == nil && now.Sub(first.GetTime().AsTime()) >= keep.Age/bus.MaxSets
	}
	newest := sets[len(sets)-1]
	return j.Last() > newest.Barrier && now.Sub(newest.Taken) >= keep.Age/bus.MaxSets
}

// cutBehindSnapshots takes a set of snapshots, cuts the journal behind one of the sets and removes manifests that are
// no longer referenced; it returns how many. cut returns how many records it cut.
func (a *agent) cutBehindSnapshots(
	ctx context.Context, keep bus.Retention, cut func([]bus.SnapshotSet) (uint64, error),
) (int, error) {
	a.cutting.Lock()
	defer a.cutting.Unlock()
	var gone uint64
	err := a.host.Retain(ctx, func(uint64, []*journaletv1.Snapshot) error {
		sets, err := a.bus.Snapshots().Sets(ctx)
		if err == nil {
			gone, err = cut(sets)
		}
		return err
	})
	if err != nil || gone == 0 {
		return 0, err
	}
	n, err := a.bus.RemoveUnreferenced(ctx, keep)
	if err != nil {
		return 0, err
	}
	a.log.Info("cut the journal", "records", gone, "first", a.bus.Journal().First(), "manifests", n)
	return n, nil
}

// prune cuts the journal once on request, as retention does; with dryRun it only reports what it would cut.
func (a *agent) prune(ctx context.Context, r bus.Retention, dryRun bool) (p bus.Pruned, err error) {
	j, now := a.bus.Journal(), time.Now()
	if dryRun {
		sets, err := a.bus.Snapshots().Sets(ctx)
		if err != nil {
			return p, err
		}
		return j.PlanPrune(ctx, r, sets, now)
	}
	n, err := a.cutBehindSnapshots(ctx, r, func(sets []bus.SnapshotSet) (_ uint64, err error) {
		p, err = j.Prune(ctx, r, sets, now)
		return p.Keep - p.First, err
	})
	p.Manifests = n
	return p, err
}
