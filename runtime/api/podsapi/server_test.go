package podsapi

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

const synced = "INITIAL_SYNC_COMPLETE"

func TestPodsAreListedByUIDAndGot(t *testing.T) {
	f := newFake(t, "b", "a")
	f.change("b", func() { f.pods["b"].Status.Phase = corev1.PodRunning })
	c := f.client()
	want := []string{"default/pod-a a Pending", "default/pod-b b Running"}
	if got := f.list(c); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	r, err := c.GetPod(t.Context(), &api.GetPodRequest{PodUID: "b"})
	must.OK(t, err)
	if got := text(t, r.GetPod()); got != want[1] {
		t.Errorf("got %s", got)
	}
	for uid, code := range map[string]codes.Code{
		"c": codes.NotFound, "": codes.NotFound, strings.Repeat("x", 16<<10): codes.ResourceExhausted,
	} {
		if _, err := c.GetPod(t.Context(), &api.GetPodRequest{PodUID: uid}); status.Code(err) != code {
			t.Errorf("UID of %d bytes: %v, want %s", len(uid), err, code)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	const notFound = "v1alpha1 GetPod NotFound"
	counted := []string{"v1alpha1 ListPods OK", "v1alpha1 GetPod OK", notFound, notFound}
	if !slices.Equal(f.requests, counted) {
		t.Errorf("counted %q, want %q", f.requests, counted)
	}
}

func TestOnlyTheOwnerMayConnect(t *testing.T) {
	f := newFake(t)
	f.list(f.client())
	for path, mode := range map[string]os.FileMode{f.socket: 0o600, filepath.Dir(f.socket): 0o750} {
		info, err := os.Stat(path)
		must.OK(t, err)
		if got := info.Mode().Perm(); got&^mode != 0 {
			t.Errorf("%s has mode %o, at most %o", path, got, mode)
		}
	}
}

func TestNothingIsServedUntilAllSourcesAreRead(t *testing.T) {
	f := newFake(t, "a")
	f.change("a", func() { f.unsynced = true })
	c := f.client()
	_, listed := c.ListPods(t.Context(), &api.ListPodsRequest{}, grpc.WaitForReady(true))
	_, got := c.GetPod(t.Context(), &api.GetPodRequest{PodUID: "a"})
	_, watched := f.watch(c).stream.Recv()
	for _, err := range []error{listed, got, watched} {
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%v, want FailedPrecondition", err)
		}
	}
	f.change("a", func() { f.unsynced = false })
	f.list(c)
	f.change("a", func() { f.unsynced = true }) // a source that is read again
	f.list(c)
}

func TestWatcherSeesAllPodsAndThenEachChange(t *testing.T) {
	f := newFake(t, "b", "a")
	w := f.watch(f.client())
	w.want("ADDED default/pod-a a Pending", "ADDED default/pod-b b Pending", synced)
	f.label("a", "1")
	w.want("MODIFIED default/pod-a a 1Pending")
	f.label("a", "1") // nothing that the watcher does not have
	f.label("b", "2")
	w.want("MODIFIED default/pod-b b 2Pending")
	f.change("c", func() { f.pods["c"] = podOf("c") })
	w.want("ADDED default/pod-c c Pending")
	f.change("a", func() { delete(f.pods, "a") })
	w.want("DELETED default/pod-a a")
	f.change("a", func() {}) // it is gone already
	f.change("a", func() { f.pods["a"] = podOf("a") })
	w.want("ADDED default/pod-a a Pending")
	second := f.watch(f.client())
	second.want("ADDED default/pod-a a Pending", "ADDED default/pod-b b 2Pending", "ADDED default/pod-c c Pending", synced)
	f.label("c", "3")
	w.want("MODIFIED default/pod-c c 3Pending")
	second.want("MODIFIED default/pod-c c 3Pending")
}

// What one actor decides about a pod, and what is a part of every status, changes pods without a record of theirs.
func TestRecordsOfOthersThatChangePodsAreSeen(t *testing.T) {
	f := newFake(t, "a", "b")
	w := f.watch(f.client())
	w.want("ADDED default/pod-a a Pending", "ADDED default/pod-b b Pending", synced)
	step := func(e *journaletv1.Event) *journaletv1.Record {
		return &journaletv1.Record{Actor: messages.Node.Proto(), Body: &journaletv1.Record_Step{
			Step: &journaletv1.Step{Decisions: []*journaletv1.Event{e}},
		}}
	}
	for value, rec := range map[string]*journaletv1.Record{
		"admitted":  step(messages.NewEvent(&journaletv1.AdmissionDecided{Uid: "a"})),
		"forgotten": step(messages.NewEvent(&journaletv1.PodForgotten{Uid: "a"})),
		"node": {Actor: messages.Node.Proto(), Body: &journaletv1.Record_Fact{
			Fact: messages.NewEvent(&journaletv1.NodeObserved{}),
		}},
	} {
		f.mu.Lock()
		f.pods["a"].Labels["v"] = value
		f.mu.Unlock()
		f.server.Stored(rec)
		w.want("MODIFIED default/pod-a a " + value + "Pending")
	}
}

func TestWithoutWatchersNothingIsReadAndNothingKept(t *testing.T) {
	f := newFake(t, "a", "b")
	c := f.client()
	f.list(c)
	f.label("a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.WatchPods(ctx, &api.WatchPodsRequest{})
	must.OK(t, err)
	(&watch{f, stream}).want("ADDED default/pod-a a 1Pending", "ADDED default/pod-b b Pending", synced)
	if got := f.reads.Load(); got != 2 {
		t.Errorf("pods were read %d times before the watcher was sent both", got)
	}
	cancel()
	h := f.server.hub
	eventually(t, "the watcher has left", func() (string, bool) { return "it is there", h.watching.Load() == 0 })
	f.label("a", "2")
	lists := f.lists.Load()
	f.server.Stored(&journaletv1.Record{Actor: messages.Node.Proto(), Body: &journaletv1.Record_Fact{
		Fact: messages.NewEvent(&journaletv1.NodeObserved{}),
	}})
	h.reading.Lock()
	defer h.reading.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := f.reads.Load(); got != 2 || len(h.marked) > 0 || len(h.pods) > 0 || f.lists.Load() != lists {
		t.Errorf("without watchers pods were read (%d), %d are marked and %d kept", got, len(h.marked), len(h.pods))
	}
}

func TestPodThatDoesNotAnswerComesOnceItDoes(t *testing.T) {
	f := newFake(t, "a", "b")
	first := f.watch(f.client())
	first.want("ADDED default/pod-a a Pending", "ADDED default/pod-b b Pending", synced)
	f.change("a", func() { f.hang["a"] = true })
	w := f.watch(f.client())
	w.want("ADDED default/pod-b b Pending", synced)
	f.label("b", "1") // others continue
	first.want("MODIFIED default/pod-b b 1Pending")
	w.want("MODIFIED default/pod-b b 1Pending")
	if _, err := f.client().GetPod(t.Context(), &api.GetPodRequest{PodUID: "a"}); status.Code(err) != codes.Unavailable {
		t.Errorf("got with %v", err)
	}
	f.mu.Lock()
	f.hang["a"] = false // no record says so
	f.mu.Unlock()
	w.want("ADDED default/pod-a a Pending")
	f.label("a", "2")
	first.want("MODIFIED default/pod-a a 2Pending")
	w.want("MODIFIED default/pod-a a 2Pending")
}

func TestRequestsAndWatchesAreLimitedByRate(t *testing.T) {
	f := newFake(t)
	c := f.client()
	f.list(c)
	f.server.clients.Limit.SetLimit(rate.Limit(1e-9))
	for range f.server.clients.Limit.Burst() + 1 {
		_, _ = c.ListPods(t.Context(), &api.ListPodsRequest{})
	}
	_, listed := c.ListPods(t.Context(), &api.ListPodsRequest{})
	_, watched := f.watch(c).stream.Recv()
	for _, err := range []error{listed, watched} {
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "rate limit") {
			t.Errorf("%v, want a refusal", err)
		}
	}
}
