package podsapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/must"
)

// limit bounds the wait for what a test expects.
const limit = time.Minute

// fake is a node with pods, and its server.
type fake struct {
	t      *testing.T
	server *Server
	socket string

	mu       sync.Mutex
	pods     map[string]*corev1.Pod
	hang     map[string]bool
	unsynced bool
	requests []string

	reads, dropped, lists atomic.Int32
	// reading are readings of a pod that are under way, overlaps the readings that began beside another one.
	reading, overlaps atomic.Int32
}

// newFake serves a node whose pods have these UIDs. Requests are not limited by rate.
func newFake(t *testing.T, uids ...string) *fake {
	t.Helper()
	f := &fake{t: t, pods: map[string]*corev1.Pod{}, hang: map[string]bool{}}
	for _, uid := range uids {
		f.pods[uid] = podOf(uid)
	}
	dir := filepath.Join(t.TempDir(), Dir)
	f.socket = filepath.Join(dir, SocketFile)
	f.server = New(Options{
		Dir: dir, Pods: f.all, Pod: f.pod,
		UIDs: func() []string {
			f.lists.Add(1)
			f.mu.Lock()
			defer f.mu.Unlock()
			return slices.Collect(maps.Keys(f.pods))
		},
		Synced: func(context.Context) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return !f.unsynced
		},
		Requested: func(version, method, code string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.requests = append(f.requests, version+" "+method+" "+code)
		},
		Dropped: func() { f.dropped.Add(1) },
	})
	f.server.clients.Limit.SetLimit(rate.Inf)
	f.server.hub.retryPause = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = f.server.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return f
}

func podOf(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "pod-" + uid, UID: types.UID(uid), Labels: map[string]string{},
	}}
}

func (f *fake) all(context.Context) (iter.Seq[*corev1.Pod], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*corev1.Pod
	for _, p := range f.pods {
		all = append(all, p.DeepCopy())
	}
	return slices.Values(all), nil
}

func (f *fake) pod(_ context.Context, uid string) (*corev1.Pod, error) {
	if f.reading.Add(1) > 1 {
		f.overlaps.Add(1)
	}
	defer f.reading.Add(-1)
	f.reads.Add(1)
	runtime.Gosched()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hang[uid] {
		return nil, errors.New("the actor does not respond")
	}
	return f.pods[uid].DeepCopy(), nil
}

// change changes the fake and shows the server a record of a pod.
func (f *fake) change(uid string, how func()) {
	f.mu.Lock()
	how()
	f.mu.Unlock()
	f.server.Stored(&journaletv1.Record{Actor: messages.Pod(uid).Proto(), Body: &journaletv1.Record_Fact{
		Fact: messages.NewEvent(&journaletv1.PodObserved{Uid: uid}),
	}})
}

// label sets the label of a pod.
func (f *fake) label(uid, value string) {
	f.change(uid, func() { f.pods[uid].Labels["v"] = value })
}

// pad gives a pod an annotation of so many bytes.
func (f *fake) pad(uid string, bytes int) {
	f.change(uid, func() { f.pods[uid].Annotations = map[string]string{"pad": strings.Repeat("x", bytes)} })
}

// conn connects to the socket.
func (f *fake) conn() *grpc.ClientConn {
	f.t.Helper()
	c, err := plugins.NewConn(f.socket, 64<<20)
	must.OK(f.t, err)
	f.t.Cleanup(func() { c.Close() })
	return c
}

func (f *fake) client() api.PodsClient {
	f.t.Helper()
	return api.NewPodsClient(f.conn())
}

// list returns the pods that ListPods returns, as text.
func (f *fake) list(c api.PodsClient) (out []string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	r, err := c.ListPods(ctx, &api.ListPodsRequest{}, grpc.WaitForReady(true))
	must.OK(f.t, err)
	for _, b := range r.GetPods() {
		out = append(out, text(f.t, b))
	}
	return out
}

// text returns the UID, the label and the phase of a pod.
func text(t *testing.T, b []byte) string {
	t.Helper()
	if b == nil {
		return ""
	}
	var p corev1.Pod
	must.OK(t, p.Unmarshal(b))
	return fmt.Sprintf("%s/%s %s %s%s", p.Namespace, p.Name, p.UID, p.Labels["v"], p.Status.Phase)
}

// watch is a client of WatchPods.
type watch struct {
	f      *fake
	stream grpc.ServerStreamingClient[api.WatchPodsEvent]
}

func (f *fake) watch(c api.PodsClient) *watch {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	f.t.Cleanup(cancel)
	stream, err := c.WatchPods(ctx, &api.WatchPodsRequest{}, grpc.WaitForReady(true))
	must.OK(f.t, err)
	return &watch{f, stream}
}

// next returns the next event as text.
func (w *watch) next() string {
	w.f.t.Helper()
	e, err := w.stream.Recv()
	must.OK(w.f.t, err)
	return strings.TrimSpace(e.GetType().String() + " " + text(w.f.t, e.GetPod()))
}

// want fails unless the next events are these.
func (w *watch) want(all ...string) {
	w.f.t.Helper()
	for _, want := range all {
		if got := w.next(); got != want {
			w.f.t.Fatalf("next event: %s, want %s", got, want)
		}
	}
}

// eventually waits until a condition holds, and fails with what it last saw.
func eventually(t *testing.T, what string, cond func() (string, bool)) {
	t.Helper()
	must.Eventually(t, limit, what, cond)
}
