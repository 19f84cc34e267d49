package podsapi

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/journalet/journalet/test/must"
)

// A watcher that reads nothing is dropped: it holds nothing from the others, and its connection ends.
func TestWatcherThatReadsNothingIsDropped(t *testing.T) {
	f := newFake(t, "a")
	f.server.hub.cutPause = time.Millisecond
	f.pad("a", 2*window) // more than gRPC takes for a client that reads nothing
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
	w := h.join(&conn{})
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

// Many connections without a request, or with garbage, take no place from a client with one.
func TestConnectionsWithoutRequestsKeepNobodyOut(t *testing.T) {
	f := newFake(t, "a")
	w := f.watch(f.client())
	w.want("ADDED default/pod-a a Pending", synced)
	for i := range 1000 {
		c, err := net.Dial("unix", f.socket)
		must.OK(t, err)
		t.Cleanup(func() { c.Close() })
		if i%2 == 0 {
			_, _ = c.Write([]byte(strings.Repeat("garbage", 1+i%100)))
		}
	}
	if got := f.list(f.client()); len(got) != 1 {
		t.Errorf("listed %q", got)
	}
	f.label("a", "1")
	w.want("MODIFIED default/pod-a a 1Pending")
	s := f.server.conns
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) > maxConnections {
		t.Errorf("%d connections are open", len(s.open))
	}
}

// What has a request under way is not closed for a connection that is new.
func TestConnectionWithARequestKeepsItsPlace(t *testing.T) {
	s := newConns()
	var busy []*conn
	for range maxConnections - 1 {
		c := s.add(&net.UnixConn{})
		s.use(c)
		busy = append(busy, c)
	}
	idle := s.add(&net.UnixConn{})
	late := s.add(&net.UnixConn{})
	if late == nil || len(s.open) > maxConnections {
		t.Fatalf("%d connections, the last one %v", len(s.open), late)
	}
	if _, open := s.open[idle]; open {
		t.Error("the idle connection has kept its place")
	}
	s.use(late)
	if s.add(&net.UnixConn{}) != nil {
		t.Error("a connection is served although all others have requests")
	}
	for _, c := range busy {
		if _, open := s.open[c]; !open {
			t.Fatal("a connection with a request was closed")
		}
	}
}

// unread requests a list and reads nothing of the answer.
func (f *fake) unread(c *grpc.ClientConn) {
	f.t.Helper()
	stream, err := c.NewStream(f.t.Context(), &grpc.StreamDesc{ServerStreams: true}, api.Pods_ListPods_FullMethodName)
	must.OK(f.t, err)
	must.OK(f.t, stream.SendMsg(&api.ListPodsRequest{}))
	must.OK(f.t, stream.CloseSend())
}

func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	f := newFake(t, "a", "b")
	const size = 2 << 20
	f.pad("a", size)
	f.pad("b", size)
	if got := f.list(f.client()); len(got) != 2 {
		t.Fatalf("listed %q", got)
	}
	u := &f.server.conns.unread
	for i := range maxUnreadBytes / size { // each list has two pods
		c := f.conn()
		f.unread(c)
		eventually(t, "the list is encoded", func() (string, bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return fmt.Sprint(len(f.requests)), len(f.requests) == i+2
		})
	}
	eventually(t, "the bytes of unread answers", func() (string, bool) {
		u.mu.Lock()
		defer u.mu.Unlock()
		return fmt.Sprintf("%d bytes of %d answers", u.bytes, len(u.all)),
			u.bytes <= maxUnreadBytes && u.bytes > maxUnreadBytes/2
	})
	if got := f.list(f.client()); len(got) != 2 {
		t.Errorf("listed %q", got)
	}
	all := f.server.conns
	all.mu.Lock()
	open := slices.Collect(func(yield func(*conn) bool) {
		for c := range all.open {
			if !yield(c) {
				return
			}
		}
	})
	all.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bytes != 0 || len(u.all) != 0 {
		t.Errorf("%d bytes of %d answers are held of connections that are closed", u.bytes, len(u.all))
	}
}

func TestReadAnswersAreNotHeld(t *testing.T) {
	f := newFake(t, "a")
	f.pad("a", 1<<20)
	c := f.client()
	f.list(c)
	w := f.watch(c)
	w.want("ADDED default/pod-a a Pending", synced)
	u := &f.server.conns.unread
	eventually(t, "unread answers", func() (string, bool) {
		u.mu.Lock()
		defer u.mu.Unlock()
		return fmt.Sprintf("%d bytes of %d", u.bytes, len(u.all)), u.bytes == 0 && len(u.all) == 0
	})
}

func TestWatchesAreBounded(t *testing.T) {
	f := newFake(t)
	for range maxWatches / maxStreams {
		c := f.client()
		for range maxStreams {
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
