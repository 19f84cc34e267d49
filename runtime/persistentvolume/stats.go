package persistentvolume

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/runtime/redact"
)

const (
	// statsTimeout bounds the measurement of one volume, which is repeated when somebody asks again (kubelet: 2 min).
	statsTimeout = 10 * time.Second
	// maxStats bounds the measurements of one driver at once, so that a driver that hangs leaves RPCs for pods.
	maxStats = 4
)

// Measure has a driver measure a volume that is set up. It returns storage.ErrNotMeasured if the volume is not set up
// or the driver measures no volumes: no volume of a driver is walked.
func (v *Volumes) Measure(ctx context.Context, uid, volume string) (storage.Measured, error) {
	dir, r := v.find(uid, volume)
	if !r.isDone(published, v.opts.BootID) {
		return storage.Measured{}, storage.ErrNotMeasured
	}
	if r.HostPath != "" {
		return storage.Measured{}, storage.ErrNotMeasured // the node's files, which nothing of the pod bounds
	}
	if r.Driver == nfsDriver {
		return storage.Export(ctx, &v.answers, v.target(uid, dir))
	}
	if r.Driver == localDriver {
		return measureLocal(v.target(uid, dir), r)
	}
	found, err := v.opts.Drivers.Usage(ctx, r.Driver, r.Handle, v.target(uid, dir))
	if err != nil {
		return storage.Measured{}, fmt.Errorf("%s%.0w", redact.URLs(err.Error()), err)
	}
	if len(found) == 0 {
		err = storage.ErrNotMeasured // it is no volume of 0 bytes (kubelet: failed to get usage from response)
	}
	return measured(found), err
}

// Usage implements Callers.
func (d *Drivers) Usage(ctx context.Context, name, handle, path string) (found []*csi.VolumeUsage, err error) {
	n, err := d.get(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	select {
	case n.stats <- struct{}{}:
		defer func() { <-n.stats }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if can, err := capabilitiesOf(ctx, n); err != nil || !can.stats {
		return nil, err
	}
	err = n.Call(ctx, "NodeGetVolumeStats", func(ctx context.Context, c csi.NodeClient) error {
		a, err := c.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: path})
		found = a.GetUsage()
		return err
	})
	return found, err
}

// measured returns what a driver has measured. A negative figure counts as 0; of two of one unit the last one counts.
func measured(all []*csi.VolumeUsage) (m storage.Measured) {
	size := func(n int64) uint64 { return uint64(max(0, n)) }
	for _, u := range all {
		switch u.GetUnit() {
		case csi.VolumeUsage_BYTES:
			m.Bytes, m.FS.Used = max(0, u.GetUsed()), size(u.GetUsed())
			m.FS.Capacity, m.FS.Available = size(u.GetTotal()), size(u.GetAvailable())
		case csi.VolumeUsage_INODES:
			m.Inodes, m.FS.Inodes, m.FS.InodesFree = max(0, u.GetUsed()), size(u.GetTotal()), size(u.GetAvailable())
		default:
		}
	}
	return m
}
