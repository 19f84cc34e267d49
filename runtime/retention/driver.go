package retention

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Pace of retention.
const (
	// checkEvery is how often the age of the oldest records is checked at least, checkMost at most. The journal
	// itself signals when it has exceeded its size.
	checkEvery = time.Hour
	checkMost  = 5 * time.Minute
	// cutTimeout bounds one cut with its snapshots and manifests; the next check does the rest.
	cutTimeout = 10 * time.Minute
)

// Host is what a Driver needs of the host of the actors.
type Host interface {
	// Snapshot takes a set of snapshots. Retain takes one, and calls cut when it is stored.
	Snapshot(ctx context.Context) error
	Retain(ctx context.Context, cut func(uint64, []*journaletv1.Snapshot) error) error
}

// Options configure a Driver; all must be set, but Keep may keep everything.
type Options struct {
	Bus  *bus.Bus
	Host Host
	Keep bus.Retention
	Log  *slog.Logger
}

// Driver keeps the journal within its bounds. Its methods may be called by any goroutine.
type Driver struct {
	o       Options
	cutting sync.Mutex // held while the journal is cut
}

// New returns a driver that Run runs.
func New(o Options) *Driver { return &Driver{o: o} }

// Name implements drivers.Driver.
func (*Driver) Name() string { return "retention" }

// Run keeps the journal within its bounds until ctx ends. A failure is logged and retried at the next check: a
// growing journal is no reason to stop.
func (d *Driver) Run(ctx context.Context) error {
	keep := d.o.Keep
	if !keep.Bounded() {
		<-ctx.Done()
		return nil
	}
	pace := time.NewTicker(paceOf(keep))
	defer pace.Stop()
	for {
		if err := d.cut(ctx); err != nil && ctx.Err() == nil {
			d.o.Log.Warn("cannot cut the journal; will retry within the hour", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		case <-d.o.Bus.Journal().Full():
		}
	}
}

// paceOf returns the time between two checks. A cut for age ends behind a set of snapshots, so sets are taken
// several times within the age that is kept.
func paceOf(keep bus.Retention) time.Duration {
	if keep.Age == 0 {
		return checkEvery
	}
	return min(max(keep.Age/bus.MaxSets, checkMost), checkEvery)
}

// cut removes records that are too old or too many, and manifests that are no longer referenced. It takes snapshots
// first if there is something to cut.
func (d *Driver) cut(ctx context.Context) error {
	keep := d.o.Keep
	ctx, cancel := context.WithTimeout(ctx, cutTimeout)
	defer cancel()
	j, now := d.o.Bus.Journal(), time.Now()
	sets, err := d.o.Bus.Snapshots().Sets(ctx)
	if err != nil {
		return err
	}
	first, err := j.Excess(ctx, keep, sets, now)
	if err != nil {
		return err
	}
	if first > j.First() {
		_, err := d.cutBehindSnapshots(ctx, keep, func(sets []bus.SnapshotSet) (uint64, error) {
			return j.Retain(ctx, keep, sets, now)
		})
		return err
	}
	if snapshotDue(ctx, keep, sets, j, now) {
		if err := d.o.Host.Snapshot(ctx); err != nil {
			d.o.Log.Warn("cannot take snapshots for retention; will retry", "err", err)
		}
	}
	// No record to cut. Manifests of earlier cuts may be there, which were too young.
	if exceed, err := d.o.Bus.ManifestsExceed(ctx, keep); err != nil {
		return err
	} else if exceed {
		d.cutting.Lock()
		_, err = d.o.Bus.RemoveUnreferenced(ctx, keep)
		d.cutting.Unlock()
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
func (d *Driver) cutBehindSnapshots(
	ctx context.Context, keep bus.Retention, cut func([]bus.SnapshotSet) (uint64, error),
) (int, error) {
	d.cutting.Lock()
	defer d.cutting.Unlock()
	var gone uint64
	err := d.o.Host.Retain(ctx, func(uint64, []*journaletv1.Snapshot) error {
		sets, err := d.o.Bus.Snapshots().Sets(ctx)
		if err == nil {
			gone, err = cut(sets)
		}
		return err
	})
	if err != nil || gone == 0 {
		return 0, err
	}
	n, err := d.o.Bus.RemoveUnreferenced(ctx, keep)
	if err != nil {
		return 0, err
	}
	d.o.Log.Info("cut the journal", "records", gone, "first", d.o.Bus.Journal().First(), "manifests", n)
	return n, nil
}

// Prune cuts the journal once on request, as retention does; with dryRun it only reports what it would cut.
func (d *Driver) Prune(ctx context.Context, r bus.Retention, dryRun bool) (p bus.Pruned, err error) {
	j, now := d.o.Bus.Journal(), time.Now()
	if dryRun {
		sets, err := d.o.Bus.Snapshots().Sets(ctx)
		if err != nil {
			return p, err
		}
		return j.PlanPrune(ctx, r, sets, now)
	}
	n, err := d.cutBehindSnapshots(ctx, r, func(sets []bus.SnapshotSet) (_ uint64, err error) {
		p, err = j.Prune(ctx, r, sets, now)
		return p.Keep - p.First, err
	})
	p.Manifests = n
	return p, err
}
