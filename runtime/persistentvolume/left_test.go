package persistentvolume

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

// keepsStaged has the driver refuse to unstage volumes with a code, or do so again with OK.
func (r *rig) keepsStaged(code codes.Code) {
	r.fake.Lock()
	defer r.fake.Unlock()
	r.fake.Before = func(_ context.Context, _ string, req any) error {
		if _, is := req.(*csi.NodeUnstageVolumeRequest); is {
			return status.Error(code, "not now")
		}
		return nil
	}
}

// It is also staged again if the pod comes before the first one's claim is gone, and nobody knows what the driver did.
func TestAVolumeIsStagedAgainAfterACrashWhileItIsUnstaged(t *testing.T) {
	r := newRig(t, fakecsi.Stage)
	vol := r.claimed("a")
	must.OK(t, r.setUp(r.pod("p1", vol)))
	ctx, crash := context.WithCancel(t.Context())
	r.fake.After = func(_ context.Context, rpc string, _ any) error {
		if rpc == "NodeUnstageVolume" {
			crash()
			return status.Error(codes.Unavailable, "the agent is gone")
		}
		return nil
	}
	all, err := r.TearDown(ctx, "p1")
	must.OK(t, err)
	if len(all) != 1 || all[0].Err == nil {
		t.Errorf("got %+v, want an error: the claim has to stay", all)
	}
	r.fake.Calls()
	r.restart("boot-1")
	must.OK(t, r.setUp(r.pod("p2", vol)))
	r.expect("NodeStageVolume h-a", "NodePublishVolume h-a")
	r.fake.After = nil
	must.OK(t, r.tearDown("p1"))
	must.OK(t, r.tearDown("p2"))
	r.nothingLeft()
}

func TestALeftVolumeStaysInUseUntilItIsUnstagedAlsoByTheNextAgent(t *testing.T) {
	r := newRig(t, fakecsi.Stage)
	r.driver.Spec.AttachRequired, r.attachInUse = nil, true
	vol := r.claimed("a")
	r.attachment = &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: key{driverName, "h-a"}.attachment(nodeName)},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true},
	}
	must.OK(t, r.setUp(r.pod("p1", vol)))
	r.keepsStaged(codes.Internal)
	must.OK(t, r.tearDown("p1"))
	inUse := func() []string {
		r.cluster.mu.Lock()
		defer r.cluster.mu.Unlock()
		return r.cluster.inUse[len(r.cluster.inUse)-1]
	}
	want := []string{"kubernetes.io/csi/" + driverName + "^h-a"}
	if got := inUse(); !slices.Equal(got, want) {
		t.Errorf("in use: %v, want %v: it would be detached", got, want)
	}
	r.restart("boot-1")
	if got := inUse(); !slices.Equal(got, want) {
		t.Errorf("in use after a restart: %v, want %v", got, want)
	}
	ctx, end := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = r.Run(ctx) })
	r.fake.Calls()
	for _, code := range []codes.Code{codes.Internal, codes.OK} {
		r.keepsStaged(code)
		must.Until(t, time.Minute, "unstaged again", func() bool {
			r.clock.ring()
			return slices.Contains(r.fake.Calls(), "NodeUnstageVolume h-a")
		})
	}
	must.Until(t, time.Minute, "no timer runs", func() bool {
		r.clock.mu.Lock()
		defer r.clock.mu.Unlock()
		return len(r.clock.rings) == 0 && len(r.allLeft()) == 0
	})
	end()
	run.Wait()
	r.nothingLeft()
}
