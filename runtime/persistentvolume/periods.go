package persistentvolume

import (
	"context"
	"log/slog"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/cluster/objectcache"
)

// maxPeriod bounds a period: the API server takes any number of seconds from 10 on, and a time has a limit.
const maxPeriod = 365 * 24 * time.Hour

// periods follows the CSIDrivers of an API server.
type periods struct {
	list    *objectcache.List[storagev1.CSIDriver, int64]
	changed chan struct{}
}

// PeriodsOf returns the Periods of an API server's CSIDrivers.
func PeriodsOf(c *client.Client, log *slog.Logger) Periods {
	p := &periods{changed: make(chan struct{}, 1)}
	p.list = objectcache.New(c, client.CSIDrivers, objectcache.Options[storagev1.CSIDriver, int64]{
		Value: func(d *storagev1.CSIDriver) (int64, bool) {
			seconds := ptr.Deref(d.Spec.NodeAllocatableUpdatePeriodSeconds, 0)
			return seconds, seconds > 0
		},
		Size:    func(int64) int { return 0 },
		Changed: func() { signal(p.changed) }, Log: log,
	})
	return p
}

// Run implements Periods, as do the methods below.
func (p *periods) Run(ctx context.Context) error { return p.list.Run(ctx) }

// Of returns the period of a driver.
func (p *periods) Of(name string) time.Duration {
	seconds, _ := p.list.Get("", name)
	return time.Duration(min(seconds, int64(maxPeriod/time.Second))) * time.Second
}

// Changed receives after a period may have changed.
func (p *periods) Changed() <-chan struct{} { return p.changed }
