package persistentvolume

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/test/must"
)

func TestAVolumeIsMeasuredByItsDriver(t *testing.T) {
	r := newRig(t)
	p := r.pod("p1", inline("data"))
	measure := func(ctx context.Context) (storage.Measured, error) { return r.Measure(ctx, "p1", "data") }
	if _, err := measure(t.Context()); !errors.Is(err, storage.ErrNotMeasured) {
		t.Errorf("before its set-up: %v", err)
	}
	must.OK(t, r.setUp(p))
	r.fake.Calls()
	if _, err := measure(t.Context()); !errors.Is(err, storage.ErrNotMeasured) {
		t.Errorf("by a driver that measures none: %v", err)
	}
	r.expect()
	r.fake.Capabilities = append(r.fake.Capabilities, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS)
	r.fake.Usage = []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: 100, Used: 30, Available: 60},
		{Unit: csi.VolumeUsage_INODES, Total: 10, Used: 4, Available: 6},
		{Unit: csi.VolumeUsage_UNKNOWN, Total: 7},
	}
	got, err := measure(t.Context())
	must.OK(t, err)
	want := storage.Measured{Bytes: 30, Inodes: 4, FS: storage.FileSystem{
		Capacity: 100, Available: 60, Used: 30, Inodes: 10, InodesFree: 6,
	}}
	if got != want {
		t.Errorf("measured %+v, want %+v", got, want)
	}
	r.expect("NodeGetVolumeStats " + inlineHandle("p1", "data") + " mount")

	r.fake.Usage = []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: math.MinInt64, Used: -1, Available: -1}, nil}
	if got, err := measure(t.Context()); err != nil || got != (storage.Measured{}) {
		t.Errorf("negative figures: %+v, %v", got, err)
	}
	r.fake.Usage = nil
	if _, err := measure(t.Context()); !errors.Is(err, storage.ErrNotMeasured) {
		t.Errorf("no figures at all: %v", err)
	}
	must.OK(t, r.tearDown("p1"))
}

func TestADriverThatHangsInMeasurementsSetsUpVolumes(t *testing.T) {
	r := newRig(t, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS)
	must.OK(t, r.setUp(r.pod("p1", inline("data"))))
	under := make(chan struct{}, maxCalls)
	r.fake.Lock()
	r.fake.Before = func(ctx context.Context, rpc string, _ any) error {
		if rpc == "NodeGetVolumeStats" {
			under <- struct{}{}
			<-ctx.Done()
		}
		return nil
	}
	r.fake.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 2 * maxCalls {
		go func() {
			_, err := r.Measure(ctx, "p1", "data")
			ended <- err
		}()
	}
	for range maxStats {
		<-under
	}
	must.OK(t, r.setUp(r.pod("p2", inline("data"))))
	// Before the end: a measurement that ends makes room for another, which does not know of the end yet.
	if more := len(under); more > 0 {
		t.Errorf("%d measurements beyond %d at once", more, maxStats)
	}
	cancel()
	for range 2 * maxCalls {
		if err := <-ended; err == nil {
			t.Error("measured")
		}
	}
	r.fake.Lock()
	r.fake.Before = nil
	r.fake.Unlock()
	must.OK(t, errors.Join(r.tearDown("p1"), r.tearDown("p2")))
}
