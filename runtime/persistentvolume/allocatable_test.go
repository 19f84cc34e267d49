package persistentvolume

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

// fakePeriods are the periods of a test.
type fakePeriods struct {
	mu       sync.Mutex
	byDriver map[string]time.Duration
	changed  chan struct{}
	followed chan struct{} // closed when they are followed
}

func (p *fakePeriods) Run(ctx context.Context) error {
	close(p.followed)
	<-ctx.Done()
	return ctx.Err()
}

func (p *fakePeriods) Of(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byDriver[name]
}

func (p *fakePeriods) Changed() <-chan struct{} { return p.changed }

func (p *fakePeriods) set(name string, period time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byDriver[name] = period
	signal(p.changed)
}

// counting is a node that has the counts of CSI drivers kept up to date. counts has what is reported.
type counting struct {
	t       *testing.T
	clock   *clock.Manual
	periods *fakePeriods
	*Drivers
	counts chan int32
	refuse error
	stop   func()
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	c := &counting{t: t, clock: clock.NewManual(time.Unix(1e9, 0)), counts: make(chan int32, 16),
		periods: &fakePeriods{
			byDriver: map[string]time.Duration{}, changed: make(chan struct{}, 1), followed: make(chan struct{}),
		}}
	c.Drivers = NewDrivers(DriverOptions{
		NewConn: newConn, Clock: c.clock, Periods: c.periods,
		Registered: func(context.Context, storagev1.CSINodeDriver, map[string]string) error { return nil },
		Updated: func(_ context.Context, _ string, now *storagev1.VolumeNodeResources) error {
			c.counts <- countOf(now)
			return c.refuse
		},
	})
	return c
}

// run runs the drivers until the test ends, or stop is called.
func (c *counting) run() {
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx)
	}()
	c.stop = sync.OnceFunc(func() { cancel(); <-done })
	c.t.Cleanup(c.stop)
}

// pass has a period end, of all of n drivers that have one.
func (c *counting) pass(n int, period time.Duration) {
	c.t.Helper()
	must.OK(c.t, c.clock.WaitPending(c.t.Context(), n))
	c.clock.Advance(period)
}

func room(n int64) *csi.NodeGetInfoResponse {
	return &csi.NodeGetInfoResponse{NodeId: "node", MaxVolumesPerNode: n}
}

// says has a driver answer NodeGetInfo otherwise.
func says(f *fakecsi.Driver, r *csi.NodeGetInfoResponse) {
	f.Lock()
	defer f.Unlock()
	f.Info = r
}

func TestTheCountOfADriverIsReadAgainWhileItIsThere(t *testing.T) {
	const period = 20 * time.Second
	c := newCounting(t)
	fake := &fakecsi.Driver{Info: room(7)}
	socket, _ := fakecsi.Start(t, fake, t.TempDir())
	must.OK(t, c.Register(t.Context(), driverName, socket))
	c.periods.set(driverName, period)
	c.run()
	<-c.periods.followed
	report := func(want int32) {
		t.Helper()
		c.pass(1, period)
		if got := <-c.counts; got != want {
			t.Errorf("reported %d, want %d", got, want)
		}
	}
	says(fake, room(5))
	report(5)
	c.pass(1, period) // the same
	says(fake, room(0))
	report(0) // without a limit
	// What is no count, and another node, change nothing; the next answer counts.
	for _, garbage := range []*csi.NodeGetInfoResponse{room(-1), {NodeId: "other", MaxVolumesPerNode: 3}, {}} {
		says(fake, garbage)
		c.pass(1, period)
	}
	says(fake, room(1<<40)) // beyond what a CSINode can have: as good as no limit
	c.pass(1, period)
	says(fake, room(9))
	report(9)
	// What the API server has not taken is reported again.
	must.OK(t, c.clock.WaitPending(t.Context(), 1))
	c.refuse = errors.New("a conflict")
	says(fake, room(8))
	report(8)
	must.OK(t, c.clock.WaitPending(t.Context(), 1))
	c.refuse = nil
	report(8)
	// Without its socket, and without a period, no timer runs.
	must.OK(t, c.clock.WaitPending(t.Context(), 1))
	c.Deregister(driverName, socket)
	c.stop()
	c.clock.Advance(time.Hour)
	if len(c.counts) > 0 {
		t.Errorf("reported %d of a driver that is gone", <-c.counts)
	}
}

func TestADriverThatHangsDelaysNoCountOfOthers(t *testing.T) {
	const period = 10 * time.Second
	c := newCounting(t)
	hangs, works := &fakecsi.Driver{Info: room(1)}, &fakecsi.Driver{Info: room(2)}
	for name, f := range map[string]*fakecsi.Driver{"hangs.example.com": hangs, "works.example.com": works} {
		socket, _ := fakecsi.Start(t, f, t.TempDir())
		must.OK(t, c.Register(t.Context(), name, socket))
		c.periods.set(name, period)
	}
	c.run()
	must.OK(t, c.clock.WaitPending(t.Context(), 2))
	hangs.Lock()
	defer hangs.Unlock() // before the node ends
	says(works, room(3))
	c.clock.Advance(period)
	if got := <-c.counts; got != 3 {
		t.Errorf("reported %d, want 3", got)
	}
	says(works, room(4))
	c.pass(1, period)
	if got := <-c.counts; got != 4 {
		t.Errorf("reported %d, want 4", got)
	}
	c.stop()
}

func TestAPeriodThatComesOrGoesCountsAtOnce(t *testing.T) {
	c := newCounting(t)
	c.run()
	fake := &fakecsi.Driver{Info: room(1)}
	socket, _ := fakecsi.Start(t, fake, t.TempDir())
	must.OK(t, c.Register(t.Context(), driverName, socket))
	<-c.periods.followed
	says(fake, room(2))
	c.periods.set(driverName, time.Second) // less than the API server takes
	if got := c.periodOf(driverName); got != minPeriod {
		t.Errorf("read again each %v, want %v", got, minPeriod)
	}
	c.pass(1, minPeriod)
	if got := <-c.counts; got != 2 {
		t.Errorf("reported %d, want 2", got)
	}
}

func TestAPodBeyondTheLimitIsNotOneThatWaits(t *testing.T) {
	exhausted := &storagev1.VolumeError{Message: "no room", ErrorCode: ptr.To(int32(codes.ResourceExhausted))}
	for name, x := range map[string]struct {
		period  *int64
		failure *storagev1.VolumeError
		missing bool
		beyond  bool
	}{
		"beyond the limit":         {period: ptr.To[int64](10), failure: exhausted, beyond: true},
		"a driver without updates": {failure: exhausted},
		"another code": {period: ptr.To[int64](10),
			failure: &storagev1.VolumeError{ErrorCode: ptr.To(int32(codes.Internal))}},
		"no code":       {period: ptr.To[int64](10), failure: &storagev1.VolumeError{Message: "ResourceExhausted"}},
		"no failure":    {period: ptr.To[int64](10)},
		"no attachment": {period: ptr.To[int64](10), missing: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounting(t)
			fake := &fakecsi.Driver{Info: room(7)}
			socket, _ := fakecsi.Start(t, fake, t.TempDir())
			must.OK(t, c.Register(t.Context(), driverName, socket))
			says(fake, room(4))
			objects := &cluster{}
			v := &Volumes{opts: Options{Objects: objects, Drivers: c.Drivers, NodeName: nodeName, Log: c.opts.Log}}
			s := &setUp{Volumes: v, src: &source{key: key{driverName, "h"}, driver: storagev1.CSIDriverSpec{
				NodeAllocatableUpdatePeriodSeconds: x.period}}}
			if !x.missing {
				objects.attachment = &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: s.src.attachment(nodeName)},
					Status: storagev1.VolumeAttachmentStatus{AttachError: x.failure}}
			}
			err := s.withheld(s.notAttached(t.Context()))
			if errors.Is(err, ErrAttachLimit) != x.beyond || err == nil {
				t.Errorf("got %v", err)
			}
			if x.beyond {
				if got := <-c.counts; got != 4 || !strings.Contains(err.Error(), "no room") {
					t.Errorf("reported %d, and %v", got, err)
				}
			}
			if len(c.counts) > 0 {
				t.Errorf("reported %d", <-c.counts)
			}
		})
	}
}

func TestPeriodsAreThoseOfTheCSIDrivers(t *testing.T) {
	server := fakeapi.New()
	driver := func(name string, seconds *int64) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: seconds}}
	}
	const resource = "csidrivers.storage.k8s.io"
	server.Create(resource, driver("a", ptr.To[int64](10)))
	server.Create(resource, driver("b", nil))
	server.Create(resource, driver("c", ptr.To[int64](1<<62)))
	api, err := client.New(client.Options{
		Config: &rest.Config{Host: server.Start(t)}, NodeName: "n", ContentType: "application/json",
	})
	must.OK(t, err)
	p := PeriodsOf(api, nil)
	done, ctx := make(chan struct{}), t.Context()
	go func() {
		defer close(done)
		_ = p.Run(ctx)
	}()
	t.Cleanup(func() { <-done })
	until := func(want ...time.Duration) {
		t.Helper()
		for {
			got := []time.Duration{p.Of("a"), p.Of("b"), p.Of("c"), p.Of("d")}
			if slices.Equal(got, want) {
				return
			}
			select {
			case <-p.Changed():
			case <-time.After(time.Minute):
				t.Fatalf("periods %v, want %v", got, want)
			}
		}
	}
	until(10*time.Second, 0, maxPeriod, 0)
	server.Create(resource, driver("d", ptr.To[int64](30)))
	until(10*time.Second, 0, maxPeriod, 30*time.Second)
}
