package persistentvolume

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

// republishing returns a node whose driver requires that its volumes are published again.
func republishing(t *testing.T, capabilities ...csi.NodeServiceCapability_RPC_Type) *rig {
	r := newRig(t, capabilities...)
	r.driver.Spec.RequiresRepublish = ptr.To(true)
	return r
}

// refreshAll is one round.
func (r *rig) refreshAll() {
	for _, all := range r.due() {
		r.round(r.t.Context(), all)
	}
}

func TestAVolumeIsPublishedAgainWhileItsPodRuns(t *testing.T) {
	r := republishing(t, fakecsi.Stage)
	ctx, end := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = r.Run(ctx) })
	must.OK(t, r.setUp(r.pod("p1", r.claimed("a"))))
	r.expect("NodeStageVolume h-a", "NodePublishVolume h-a")
	for range 2 {
		must.Until(t, time.Minute, "published again", func() bool {
			r.clock.ring() // a round that has not ended lets the next one out
			return slices.Contains(r.fake.Calls(), "NodePublishVolume h-a")
		})
	}
	must.OK(t, r.tearDown("p1"))
	must.Until(t, time.Minute, "no timer runs", func() bool {
		r.clock.mu.Lock()
		defer r.clock.mu.Unlock()
		return len(r.clock.rings) == 0
	})
	end()
	run.Wait()
	r.nothingLeft()
}

// countedBell counts how often it rings.
type countedBell struct {
	clock.Bell
	rings int
}

func (b *countedBell) Ring() { b.rings++ }

func TestNothingWakesUpForVolumesThatStay(t *testing.T) {
	r := newRig(t)
	bell := &countedBell{Bell: r.changed}
	r.changed = bell
	must.OK(t, r.setUp(r.pod("p1", inline("data"))))
	must.OK(t, r.tearDown("p1"))
	if bell.rings > 0 || len(r.due()) > 0 {
		t.Errorf("due are %v, woken %d times", r.due(), bell.rings)
	}
}

func TestAFailureToPublishAgainLeavesTheVolume(t *testing.T) {
	r := republishing(t)
	r.driver.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
	must.OK(t, r.setUp(r.pod("p1", inline("data"))))
	r.fake.Lock()
	r.fake.Before = func(_ context.Context, _ string, req any) error {
		if x, is := req.(*csi.NodePublishVolumeRequest); is {
			return status.Error(codes.InvalidArgument, "vault refuses "+x.GetVolumeContext()[tokensKey]+" token-for-vault")
		}
		return nil
	}
	r.fake.Unlock()
	r.refreshAll()
	events := r.emitted()
	if len(events) != 1 || !strings.HasPrefix(events[0], `Pod p1 Warning FailedMount MountVolume.SetUp failed for `+
		`volume "data" : NodePublishVolume: rpc error: code = InvalidArgument`) ||
		strings.Contains(events[0], "token-for-vault") {
		t.Errorf("events: %q", events)
	}
	if r.Lost("p1", "data") || len(fakecsi.Mounts(r.root)) != 1 {
		t.Errorf("mounted: %v", fakecsi.Mounts(r.root))
	}
	r.fake.Calls()
	r.refreshAll()
	must.OK(t, r.tearDown("p1"))
	handle := inlineHandle("p1", "data")
	r.expect("NodePublishVolume "+handle, "NodeUnpublishVolume "+handle)
	r.nothingLeft()
}

func TestAPodThatEndsIsNotPublishedTo(t *testing.T) {
	r := republishing(t)
	p := r.pod("p1", inline("data"))
	must.OK(t, r.setUp(p))
	r.fake.Calls()
	late := r.due()[driverName]
	p.DeletionTimestamp = ptr.To(metav1.Now())
	r.refreshAll()
	r.expect()
	p.DeletionTimestamp = nil
	must.OK(t, r.tearDown("p1"))
	r.fake.Calls()
	r.round(t.Context(), late) // it began before the end
	delete(r.running, "p1")
	r.round(t.Context(), late)
	r.expect()
	r.nothingLeft()
}

func TestATokenIsRenewedBeforeItExpires(t *testing.T) {
	r := republishing(t)
	r.driver.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault", ExpirationSeconds: ptr.To(int64(600))}}
	r.lifetime = 10 * time.Minute
	var mu sync.Mutex
	var got []string
	r.fake.Before = func(_ context.Context, _ string, req any) error {
		if x, is := req.(*csi.NodePublishVolumeRequest); is {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, x.GetVolumeContext()[tokensKey])
		}
		return nil
	}
	must.OK(t, r.setUp(r.pod("p1", inline("data"))))
	for range 9 {
		r.clock.pass(time.Minute)
		r.refreshAll()
	}
	for i, tokens := range got {
		if want := fmt.Sprintf("token-%d-for-vault", 1+i/8); !strings.Contains(tokens, want) {
			t.Errorf("after %d min: %s, want %s", i, tokens, want)
		}
	}
	if len(got) != 10 {
		t.Errorf("%d publications", len(got))
	}
	must.OK(t, r.tearDown("p1"))
	if len(r.Volumes.tokens.byPod) > 0 {
		t.Errorf("tokens are left: %v", r.Volumes.tokens.byPod)
	}
}

func TestATokenOfAnotherClockIsUsedNoLongerThanRequested(t *testing.T) {
	now := time.Unix(1e9, 0)
	for ahead, want := range map[time.Duration]time.Duration{
		10 * time.Minute: 8 * time.Minute, 5 * time.Hour: 8 * time.Minute, -time.Hour: -48 * time.Minute,
	} {
		s := authenticationv1.TokenRequestStatus{ExpirationTimestamp: metav1.NewTime(now.Add(ahead))}
		if got := usedFor(now, s, storagev1.TokenRequest{ExpirationSeconds: ptr.To(int64(600))}); got != want {
			t.Errorf("%v: %v, want %v", ahead, got, want)
		}
	}
}

func TestADriverThatHangsHoldsUpItsOwnRoundsOnly(t *testing.T) {
	r := republishing(t)
	const pods = maxRefreshes + 2
	for i := range pods {
		must.OK(t, r.setUp(r.pod(fmt.Sprint("p", i), inline("data"))))
	}
	r.fake.Calls()
	release := make(chan struct{})
	var mu sync.Mutex
	under, most := 0, 0
	r.fake.Lock()
	r.fake.Before = func(ctx context.Context, _ string, _ any) error {
		mu.Lock()
		under++
		most = max(most, under)
		mu.Unlock()
		select {
		case <-release:
		case <-ctx.Done():
		}
		mu.Lock()
		defer mu.Unlock()
		under--
		return nil
	}
	r.fake.Unlock()
	var rounds sync.WaitGroup
	all := r.due()[driverName]
	r.begin(t.Context(), &rounds, driverName, all)
	must.Until(t, time.Minute, "so many under way", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return under == maxRefreshes
	})
	r.begin(t.Context(), &rounds, driverName, all)
	r.begin(t.Context(), &rounds, "other.example.com", nil)
	must.Until(t, time.Minute, "the round of another driver has ended", func() bool {
		r.Volumes.mu.Lock()
		defer r.Volumes.mu.Unlock()
		return !r.rounds["other.example.com"]
	})
	close(release)
	rounds.Wait()
	if n := len(r.fake.Calls()); n != pods || most > maxRefreshes {
		t.Errorf("%d calls, want %d; at most %d at once", n, pods, most)
	}
	for i := range pods {
		must.OK(t, r.tearDown(fmt.Sprint("p", i)))
	}
}
