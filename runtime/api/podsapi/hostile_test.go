package podsapi

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/journalet/journalet/runtime/plugins/clients"
)

// A watcher that reads nothing is dropped: it holds nothing from the others, and its connection ends.
func TestWatcherThatReadsNothingIsDropped(t *testing.T) {
	f := newFake(t, "a")
	f.server.hub.cutPause = time.Millisecond
	f.pad("a", 2*clients.Window) // more than gRPC takes for a client that reads nothing
	good, deaf := f.watch(f.client()), f.watch(f.client())
	good.want("ADDED default/pod-a a Pending", synced)
	eventually(t, "two watchers", func() (string, bool) {
		n := f.server.hub.watching.Load()
		return fmt.Sprint(n), n == 2
	})
	for i := range 2 * maxEvents {
		value := fmt.Sprint(i)
		f.label("a", value)
		good.want("MODIFIED default/pod-a a " + value + "Pending")
	}
	eventually(t, "the deaf watcher has left", func() (string, bool) {
		n := f.server.hub.watching.Load()
		return fmt.Sprint(n), n == 1
	})
	if got := f.dropped.Load(); got != 1 {
		t.Errorf("%d events were counted as dropped, want 1", got)
	}
	for {
		if _, err := deaf.stream.Recv(); err != nil {
			break
		}
	}
	f.label("a", "last")
	good.want("MODIFIED default/pod-a a lastPending")
}

// Few large events are as bad as many small ones. A watcher that reads in time has an error.
func TestEventsThatWaitAreBoundedByBytes(t *testing.T) {
	f := newFake(t, "a")
	h := f.server.hub
	f.list(f.client())
	w := h.join(&clients.Conn{})
	defer h.leave(w)
	h.sent(w)
	const size = 1 << 20
	f.pad("a", size)
	for i := range maxEventBytes/size - 1 {
		eventually(t, "an event waits", func() (string, bool) { return fmt.Sprint(len(w.events)), len(w.events) == i+1 })
		f.label("a", fmt.Sprint(i))
	}
	eventually(t, "dropped", func() (string, bool) { return fmt.Sprint(w.waiting.Load()), w.dropped.Load() })
	if n := len(w.events); n >= maxEventBytes/size {
		t.Errorf("%d events of 1 MiB wait", n)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.cut.Stop() {
		t.Error("the connection is closed at once")
	}
}

func TestWatchesAreBounded(t *testing.T) {
	f := newFake(t)
	for range maxWatches / clients.MaxStreams {
		c := f.client()
		for range clients.MaxStreams {
			f.watch(c).want(synced)
		}
	}
	if _, err := f.watch(f.client()).stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one watch too many: %v", err)
	}
}

// A pod that changes all the time is never shown as it was before what a client has seen, whenever it begins to watch.
func TestWatchersSeeNoOlderPod(t *testing.T) {
	const changes, watchers = 300, 8
	f := newFake(t, "a")
	f.change("a", func() { f.pods["a"].Generation = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	begin := make(chan struct{})
	var once sync.Once
	// follow watches until the last change, or until it lags. It returns the generation that it saw last.
	follow := func(c api.PodsClient, seen int64) (int64, error) {
		stream, err := c.WatchPods(ctx, &api.WatchPodsRequest{}, grpc.WaitForReady(true))
		for err == nil && seen < changes {
			var e *api.WatchPodsEvent
			if e, err = stream.Recv(); err != nil || e.GetPod() == nil {
				continue
			}
			once.Do(func() { close(begin) })
			var p corev1.Pod
			if err = p.Unmarshal(e.GetPod()); err == nil && p.Generation < seen {
				err = fmt.Errorf("generation %d after %d", p.Generation, seen)
			}
			seen = p.Generation
		}
		return seen, err
	}
	var all sync.WaitGroup
	for range watchers {
		c := f.client()
		all.Go(func() {
			for seen := int64(0); seen < changes; {
				var err error
				if seen, err = follow(c, seen); err != nil && status.Code(err) != codes.ResourceExhausted {
					t.Error(err)
					return
				}
			}
		})
	}
	<-begin
	for n := int64(2); n <= changes; n++ {
		reads := f.reads.Load()
		f.change("a", func() { f.pods["a"].Generation = n })
		eventually(t, "the pod is read", func() (string, bool) {
			return "", f.server.hub.watching.Load() == 0 || f.reads.Load() != reads
		})
	}
	all.Wait()
	if n := f.overlaps.Load(); n > 0 {
		t.Errorf("%d readings began beside another one, which may be passed on later", n)
	}
}
