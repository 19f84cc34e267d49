package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// world is an API server with the phases of pods, the pods of a node, and what the driver has requested.
type world struct {
	mu      sync.Mutex
	d       *Driver
	pods    map[string]*corev1.Pod // as the watch has shown them
	wanted  map[string]Desired
	fail    map[string]error // of the next requests for a pod, by UID
	takes   time.Duration    // of each request
	version int
	log     []string
	deleted []*journaletv1.ApiDeleteFinished
	begun   time.Time
}

// run runs a driver on virtual time.
func run(t *testing.T, workers int, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{pods: map[string]*corev1.Pod{}, wanted: map[string]Desired{}, fail: map[string]error{}, begun: time.Now()}
		get := func(uid string) *corev1.Pod {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.pods[uid].DeepCopy()
		}
		w.d = New(Options{
			Workers: workers, Object: get, Mirror: func(uid string) *corev1.Pod { return get("mirror of " + uid) },
			Desired: func(_ context.Context, uid string) (Desired, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if want, ok := w.wanted[uid]; ok {
					return want, nil
				}
				return Desired{}, ErrNoPod
			},
			Patch: w.patch, Delete: w.delete,
			Deleted: func(f *journaletv1.ApiDeleteFinished) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.deleted = append(w.deleted, f)
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.d.Run(ctx) }()
		test(w)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func (w *world) add(uid string, phase corev1.PodPhase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	p := &corev1.Pod{}
	p.UID, p.Name, p.ResourceVersion, p.Status.Phase = types.UID(uid), uid, strconv.Itoa(w.version), phase
	p.Status.StartTime = &begun
	w.pods[uid] = p
}

func (w *world) want(uid string, phase corev1.PodPhase, mayRun bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted[uid] = Desired{View: &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}, MayRun: mayRun}
}

// request notes a request and returns its error.
func (w *world) request(what, uid string) error {
	<-time.After(w.takes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.log = append(w.log, fmt.Sprintf("%v %s %s", time.Since(w.begun).Round(100*time.Millisecond), what, uid))
	return w.fail[uid]
}

func (w *world) patch(_ context.Context, _, name string, patch []byte) (*corev1.Pod, error) {
	var p struct {
		Metadata struct{ UID string }
		Status   struct{ Phase corev1.PodPhase }
	}
	if err := errors.Join(json.Unmarshal(patch, &p)); err != nil {
		return nil, err
	}
	if err := w.request("patch "+string(p.Status.Phase), p.Metadata.UID); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.pods[p.Metadata.UID].DeepCopy()
	got.Status.Phase, got.ResourceVersion = p.Status.Phase, strconv.Itoa(w.version)
	return got, nil
}

func (w *world) delete(_ context.Context, _, _ string, uid types.UID) error {
	return w.request("delete", string(uid))
}

func (w *world) fails(uid string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[uid] = err
}

func (w *world) all() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log
}

// requests wants the requests so far.
func (w *world) requests(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(w.all(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("requests\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func fact(uid string, e *journaletv1.Event) *journaletv1.Record {
	return &journaletv1.Record{Actor: messages.Pod(uid).Proto(), Body: &journaletv1.Record_Fact{Fact: e}}
}

func step(uid string, decisions ...*journaletv1.Event) *journaletv1.Record {
	return &journaletv1.Record{Actor: messages.Pod(uid).Proto(), Body: &journaletv1.Record_Step{
		Step: &journaletv1.Step{Decisions: decisions}}}
}

func exit(uid string) *journaletv1.Record {
	return fact(uid, messages.NewEvent(&journaletv1.PodObserved{Uid: uid, Containers: []*journaletv1.ContainerObservation{
		{State: journaletv1.ContainerState_CONTAINER_STATE_EXITED}}}))
}

func start(uid string) *journaletv1.Record {
	return fact(uid, messages.NewEvent(&journaletv1.PodObserved{Uid: uid}))
}

var gone = apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")

func TestQuickChangesAreOnePatchAndExitsGoAtOnce(t *testing.T) {
	run(t, 2, func(w *world) {
		w.add("u", corev1.PodPending)
		w.want("u", corev1.PodPending, true)
		w.d.Stored(start("u"))
		<-time.After(gather / 2)
		w.want("u", corev1.PodRunning, true)
		w.d.Stored(start("u"))
		<-time.After(time.Second)
		w.requests(t, "200ms patch Running u")
		w.want("u", corev1.PodFailed, false)
		w.d.Stored(exit("u"))
		synctest.Wait()
		w.requests(t, "200ms patch Running u", "1.1s patch Failed u")
	})
}

func TestOnePodHasOneRequestAtATimeAndTheNewestWins(t *testing.T) {
	run(t, 4, func(w *world) {
		w.takes = time.Second
		w.add("u", corev1.PodPending)
		w.want("u", corev1.PodRunning, true)
		w.d.Stored(exit("u"))
		synctest.Wait()
		for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodFailed} {
			w.want("u", phase, false)
			w.d.Stored(exit("u"))
		}
		<-time.After(5 * time.Second)
		w.requests(t, "1s patch Running u", "2s patch Failed u")
	})
}

func TestFailingPodHoldsUpNoOther(t *testing.T) {
	run(t, 1, func(w *world) {
		for _, uid := range []string{"a", "b"} {
			w.add(uid, corev1.PodPending)
			w.want(uid, corev1.PodRunning, true)
		}
		w.fail["a"] = apierrors.NewForbidden(schema.GroupResource{}, "a", nil)
		w.d.Stored(exit("a"))
		synctest.Wait()
		w.d.Stored(exit("b"))
		w.d.Stored(exit("a")) // a change does not end the pause
		<-time.After(4 * time.Second)
		var of []string
		for _, r := range w.all() {
			of = append(of, r[strings.LastIndex(r, " ")+1:])
		}
		if got := strings.Join(of, " "); got != "a b a a a" {
			t.Errorf("requests %q, want one of b and four of a with growing pauses", got)
		}
	})
}

func TestUrgentPodsGoFirst(t *testing.T) {
	run(t, 1, func(w *world) {
		w.takes = time.Second
		for i := range 5 {
			uid := "u" + strconv.Itoa(i)
			w.add(uid, corev1.PodPending)
			w.want(uid, corev1.PodRunning, true)
			w.d.Seen(uid)
		}
		<-time.After(gather + time.Second/2)
		w.d.Stored(exit("u4"))
		<-time.After(10 * time.Second)
		w.requests(t, "1.2s patch Running u0", "2.2s patch Running u4", "3.2s patch Running u1", "4.2s patch Running u2",
			"5.2s patch Running u3")
	})
}

func TestResponseIsTheBaseUntilTheWatchShowsIt(t *testing.T) {
	run(t, 1, func(w *world) {
		w.add("u", corev1.PodPending)
		for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodPending} {
			w.want("u", phase, true)
			w.d.Stored(exit("u"))
			synctest.Wait()
		}
		w.requests(t, "0s patch Running u", "0s patch Pending u")
		// Somebody edits what is ours.
		w.add("u", corev1.PodRunning)
		w.d.Seen("u")
		<-time.After(time.Second)
		w.requests(t, "0s patch Running u", "0s patch Pending u", "200ms patch Pending u")
		// The echo of our own patch.
		w.add("u", corev1.PodPending)
		w.d.Seen("u")
		<-time.After(time.Second)
		w.requests(t, "0s patch Running u", "0s patch Pending u", "200ms patch Pending u")
	})
}

func TestPodThatIsGoneIsNotPatchedAgain(t *testing.T) {
	run(t, 1, func(w *world) {
		w.add("u", corev1.PodPending)
		w.want("u", corev1.PodRunning, true)
		w.want("unknown to the API server", corev1.PodRunning, true)
		w.fail["u"] = gone
		for _, uid := range []string{"u", "unknown to the API server", "without an actor"} {
			w.d.Stored(exit(uid))
		}
		<-time.After(time.Minute)
		w.requests(t, "0s patch Running u")
	})
}

func TestStatusOfStaticPodGoesToItsMirror(t *testing.T) {
	run(t, 1, func(w *world) {
		w.add("mirror of u", corev1.PodPending)
		w.want("u", corev1.PodRunning, true)
		static := w.wanted["u"]
		static.Static = true
		w.wanted["u"] = static
		w.d.Stored(exit("u"))
		synctest.Wait()
		w.requests(t, "0s patch Running mirror of u")
	})
}

func TestDeletionIsRepeatedUntilItHasAnOutcome(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		absent   bool
		message  string
		repeated bool
	}{
		{name: "deleted"},
		{name: "gone", err: gone, absent: true},
		{name: "another pod", err: apierrors.NewConflict(schema.GroupResource{}, "p", errors.New("uid")), absent: true},
		{name: "no answer", err: errors.New("connection refused"), repeated: true},
		{name: "busy", err: apierrors.NewTooManyRequests("later", 1), repeated: true},
		{name: "refused", err: apierrors.NewBadRequest("no"), message: "no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, 1, func(w *world) {
				w.fails("u", c.err)
				w.d.Stored(step("u", messages.NewEvent(&journaletv1.ApiDeleteRequested{Uid: "u", Name: "p"})))
				<-time.After(time.Minute)
				if c.repeated {
					if n := len(w.all()); n < 4 || n > 8 || len(w.deleted) > 0 {
						t.Fatalf("%d requests in a minute and the outcomes %v; want some, with growing pauses, and none", n, w.deleted)
					}
					w.fails("u", nil)
					<-time.After(time.Minute)
				}
				w.all()
				var got []string
				for _, f := range w.deleted {
					got = append(got, fmt.Sprint(f.GetUid(), f.GetAbsent(), f.GetMessage()))
				}
				if want := fmt.Sprint([]string{fmt.Sprint("u", c.absent, c.message)}); fmt.Sprint(got) != want {
					t.Errorf("outcomes %v, want %v", got, want)
				}
			})
		})
	}
}
