package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/journalet/journalet/runtime/clock"
)

// minPeriod is the least period of a CSIDriver that the API server takes. A shorter one is not believed.
const minPeriod = 10 * time.Second

// Periods has how often the count of volumes that drivers can have on this node is read again (CSIDriver:
// nodeAllocatableUpdatePeriodSeconds, KEP-4876).
type Periods interface {
	// Run follows the CSIDrivers until ctx ends. It is called when the first driver has registered.
	Run(ctx context.Context) error
	// Of returns the period of a driver; 0: never, or its CSIDriver is not known.
	Of(name string) time.Duration
	// Changed receives after a period may have changed.
	Changed() <-chan struct{}
}

// updating is the reads of one driver's count.
type updating struct {
	driver *driver
	period time.Duration
	stop   context.CancelFunc
}

// runUpdates has the counts of drivers read again until ctx ends. Each driver has a goroutine of its own, since one may
// hang. Until a driver has registered nothing is followed, and without a period no timer runs.
func (d *Drivers) runUpdates(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	running, following := map[string]*updating{}, false
	for {
		if d.any() && !following {
			following = true
			all.Go(func() { _ = d.opts.Periods.Run(ctx) })
		}
		d.compareUpdates(ctx, running, &all)
		select {
		case <-ctx.Done():
			return
		case <-d.changed:
		case <-d.opts.Periods.Changed():
		}
	}
}

func (d *Drivers) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byName) > 0
}

// compareUpdates ends the reads of drivers that are gone or have another period, and begins the reads of new ones.
func (d *Drivers) compareUpdates(ctx context.Context, running map[string]*updating, all *sync.WaitGroup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, u := range running {
		if d.byName[name] != u.driver || d.periodOf(name) != u.period {
			u.stop()
			delete(running, name)
		}
	}
	for name, n := range d.byName {
		period := d.periodOf(name)
		if running[name] != nil || period == 0 {
			continue
		}
		u := &updating{driver: n, period: period}
		var cancelable context.Context
		cancelable, u.stop = context.WithCancel(ctx)
		running[name] = u
		all.Go(func() {
			for clock.Wait(cancelable, d.opts.Clock, period) == nil {
				d.updateOf(cancelable, n)
			}
		})
	}
}

func (d *Drivers) periodOf(name string) time.Duration {
	if p := d.opts.Periods.Of(name); p > 0 {
		return max(p, minPeriod)
	}
	return 0
}

// Recount implements Callers.
func (d *Drivers) Recount(ctx context.Context, name string) {
	if n, err := d.get(name); err == nil && d.opts.Updated != nil {
		d.updateOf(ctx, n)
	}
}

// updateOf reads a driver's count, and reports it if the CSINode has another one. A failure leaves the count as it is:
// a limit that is too high costs a pod its place, none at all costs many.
func (d *Drivers) updateOf(ctx context.Context, n *driver) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case n.updates <- struct{}{}:
		defer func() { <-n.updates }()
	case <-ctx.Done():
		return
	}
	err := d.report(ctx, n)
	switch {
	case err != nil && !n.outdated && !errors.Is(ctx.Err(), context.Canceled):
		d.opts.Log.Warn("the count of volumes that a CSI driver can have on this node is not read again, and stays as it "+
			"is; the next try follows", "driver", n.name, "error", err)
		n.outdated = true
	case err == nil && n.outdated:
		d.opts.Log.Info("the count of volumes that a CSI driver can have on this node is read again", "driver", n.name)
		n.outdated = false
	}
}

func (d *Drivers) report(ctx context.Context, n *driver) error {
	r, err := n.getInfo(ctx)
	switch {
	case err != nil:
		return err
	case r.GetNodeId() != n.node.NodeID:
		return fmt.Errorf("NodeGetInfo: CSI driver %s calls this node %.64q, and %.64q when it registered; restart the "+
			"driver", n.name, r.GetNodeId(), n.node.NodeID)
	case r.GetMaxVolumesPerNode() < 0:
		return fmt.Errorf("NodeGetInfo: CSI driver %s can have %d volumes on this node; correct the driver", n.name,
			r.GetMaxVolumesPerNode())
	}
	now := allocatable(r)
	if equality.Semantic.DeepEqual(n.node.Allocatable, now) {
		return nil
	}
	if err := d.opts.Updated(ctx, n.name, now); err != nil {
		return err
	}
	d.opts.Log.Info("the count of volumes that a CSI driver can have on this node has changed", "driver", n.name,
		"before", countOf(n.node.Allocatable), "now", countOf(now))
	n.node.Allocatable = now
	return nil
}

// countOf returns a count for a log; 0: no limit.
func countOf(a *storagev1.VolumeNodeResources) int32 {
	if a == nil || a.Count == nil {
		return 0
	}
	return *a.Count
}
