package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	synced  []time.Duration
	begun   time.Time
	// returned is closed when the server answers again.
	returned chan struct{}
	// unlisted: the pods are not known yet. uninspected: the runtime is not.
	unlisted    bool
	uninspected atomic.Bool
}

// run runs a driver on virtual time.
func run(t *testing.T, workers int, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{pods: map[string]*corev1.Pod{}, wanted: map[string]Desired{}, fail: map[string]error{}, begun: time.Now(),
			returned: make(chan struct{})}
		get := func(uid string) *corev1.Pod {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.pods[uid].DeepCopy()
		}
		w.d = New(Options{
			Workers: workers, Listed: func() bool { return !w.unlisted }, Object: get,
			Mirror: func(static *corev1.Pod) *corev1.Pod { return get("mirror of " + string(static.UID)) },
			Desired: func(_ context.Context, uid string) (Desired, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if want, ok := w.wanted[uid]; ok {
					return want, nil
				}
				return Desired{}, ErrNoPod
			},
			Inspected: func(string) bool { return !w.uninspected.Load() },
			Pods:      func() []string { return []string{"u0", "u1"} },
			Patch:     w.patch, Delete: w.delete, Returned: func() <-chan struct{} { return w.back() },
			Synced: func(took time.Duration) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.synced = append(w.synced, took)
			},
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

// back returns returned once; the server does not go away again.
func (w *world) back() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.returned:
		return nil
	default:
		return w.returned
	}
}

func (w *world) add(uid string, phase corev1.PodPhase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	p := &corev1.Pod{}
	p.UID, p.Name, p.ResourceVersion, p.Status.Phase = types.UID(uid), uid, strconv.Itoa(w.version), phase
	p.Status.StartTime, p.Spec.NodeName = &begun, "n"
	w.pods[uid] = p
}

func (w *world) want(uid string, phase corev1.PodPhase, mayRun bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted[uid] = Desired{View: &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}, MayRun: mayRun}
}

// start starts pods u0, u1 and so on; the API server does not know yet that they run.
func (w *world) start(pods int) {
	for i := range pods {
		uid := "u" + strconv.Itoa(i)
		w.add(uid, corev1.PodPending)
		w.want(uid, corev1.PodRunning, true)
		w.d.Seen(uid)
	}
}

// request notes a request and returns its error.
func (w *world) request(what, uid string) error {
	<-time.After(w.takes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.log = append(w.log, fmt.Sprintf("%v %s %s", time.Since(w.begun).Round(100*time.Millisecond), what, uid))
	if errors.Is(w.fail[uid], errDefect) {
		panic("a defect")
	}
	return w.fail[uid]
}

// errDefect has a request panic, as code of the agent may.
var errDefect = errors.New("a defect")

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

// As with a kubelet, whose next status of each pod has them.
func TestOtherAddressesOfTheNodeAreInTheStatusOfAllPods(t *testing.T) {
	run(t, 2, func(w *world) {
		observed := func(ip string, labels map[string]string) {
			w.d.Stored(&journaletv1.Record{Actor: messages.Node.Proto(), Body: &journaletv1.Record_Fact{
				Fact: messages.NewEvent(&journaletv1.NodeObserved{
					Uid: "n", Labels: labels, Ips: &journaletv1.NodeIPs{Internal: []string{ip}},
				}),
			}})
			for _, uid := range []string{"u0", "u1"} {
				w.mu.Lock()
				w.wanted[uid] = Desired{MayRun: true, View: &corev1.Pod{Status: corev1.PodStatus{
					Phase: corev1.PodRunning, HostIP: ip, HostIPs: []corev1.HostIP{{IP: ip}},
				}}}
				w.mu.Unlock()
			}
			<-time.After(time.Minute)
		}
		w.start(2)
		<-time.After(time.Minute)
		before := len(w.all())
		observed("192.0.2.1", nil)
		if got := len(w.all()) - before; got != 2 {
			t.Errorf("%d statuses with the first address", got)
		}
		observed("192.0.2.1", map[string]string{"a": "b"})
		if got := len(w.all()) - before; got != 2 {
			t.Errorf("%d statuses after a change of labels", got)
		}
		observed("192.0.2.2", nil)
		if got := len(w.all()) - before; got != 4 {
			t.Errorf("%d statuses after a change of the address", got)
		}
	})
}

func TestTimeFromTheFirstChangeToItsResponseIsMeasured(t *testing.T) {
	run(t, 2, func(w *world) {
		w.takes = time.Second
		w.add("u", corev1.PodPending)
		w.want("u", corev1.PodRunning, true)
		w.d.Stored(start("u"))
		<-time.After(gather / 2)
		w.d.Stored(start("u")) // the same patch
		<-time.After(5 * time.Second)
		w.fails("u", errors.New("no answer"))
		w.want("u", corev1.PodFailed, false)
		w.d.Stored(exit("u"))
		<-time.After(100 * time.Millisecond)
		w.fails("u", nil)
		w.d.Stored(exit("u")) // while it is under way
		<-time.After(10 * time.Second)
		w.all()
		w.mu.Lock()
		defer w.mu.Unlock()
		if got := w.synced; len(got) != 2 || got[0] != gather+time.Second || got[1] < time.Second {
			t.Errorf("measured %v, want 1.2 s and a second or more", got)
		}
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
	for _, failure := range []error{apierrors.NewForbidden(schema.GroupResource{}, "a", nil), errDefect} {
		run(t, 1, func(w *world) {
			for _, uid := range []string{"a", "b"} {
				w.add(uid, corev1.PodPending)
				w.want(uid, corev1.PodRunning, true)
			}
			w.fail["a"] = failure
			w.d.Stored(exit("a"))
			synctest.Wait()
			w.d.Stored(exit("b"))
			w.d.Stored(exit("a")) // a change does not end the pause
			<-time.After(4 * time.Second)
			var pods []string
			for _, r := range w.all() {
				pods = append(pods, r[strings.LastIndex(r, " ")+1:])
			}
			if got := strings.Join(pods, " "); got != "a b a a a" {
				t.Errorf("%v: requests %q, want one of b and four of a with growing pauses", failure, got)
			}
		})
	}
}

func TestUrgentPodsGoFirst(t *testing.T) {
	run(t, 1, func(w *world) {
		w.takes = time.Second
		w.start(5)
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
		if kept := w.d.answers["u"].pod; kept == nil || kept.Spec.NodeName != "" {
			t.Errorf("of the response is kept %v, want no spec: many may be large", kept)
		}
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

func TestPodIsReportedOnceItWasInspected(t *testing.T) {
	run(t, 1, func(w *world) {
		w.uninspected.Store(true)
		for _, uid := range []string{"observed", "unseen"} {
			w.add(uid, corev1.PodRunning)
			w.want(uid, corev1.PodPending, true)
		}
		unseen := w.wanted["unseen"]
		unseen.Unseen = true
		w.wanted["unseen"] = unseen
		w.d.Stored(exit("unseen"))
		w.d.Stored(exit("observed"))
		<-time.After(time.Minute)
		w.requests(t, "0s patch Pending observed")
		w.uninspected.Store(false)
		<-time.After(time.Minute)
		if all := w.all(); len(all) != 2 || !strings.HasSuffix(all[1], "patch Pending unseen") {
			t.Errorf("got %q", all)
		}
	})
}

func TestStatusOfStaticPodGoesToItsMirror(t *testing.T) {
	run(t, 1, func(w *world) {
		w.add("mirror of u", corev1.PodPending)
		w.want("u", corev1.PodRunning, true)
		static := w.wanted["u"]
		static.Static, static.View.UID = true, "u"
		w.wanted["u"] = static
		w.d.Stored(exit("u"))
		synctest.Wait()
		w.requests(t, "0s patch Running mirror of u")
	})
}

func TestDeletedPodIsGoneOnceTheWatchShowsItToo(t *testing.T) {
	for name, c := range map[string]struct{ hide, show func(*world) }{
		"shown": {
			hide: func(w *world) { w.add("u", corev1.PodFailed) },
			show: func(w *world) { delete(w.pods, "u") },
		},
		"not listed": {
			hide: func(w *world) { w.unlisted = true },
			show: func(w *world) { w.unlisted = false },
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 1, func(w *world) {
				c.hide(w)
				w.fails("u", gone)
				w.d.Stored(step("u", messages.NewEvent(&journaletv1.ApiDeleteRequested{Uid: "u", Name: "p"})))
				<-time.After(time.Minute)
				if n := len(w.all()); n < 4 || n > 8 || len(w.deleted) > 0 {
					t.Errorf("%d requests in a minute and the outcomes %v; want some, with growing pauses, and none", n, w.deleted)
				}
				w.mu.Lock()
				c.show(w)
				w.mu.Unlock()
				w.d.Seen("u")
				<-time.After(time.Minute)
				if w.all(); len(w.deleted) != 1 || !w.deleted[0].GetAbsent() {
					t.Errorf("outcomes %v, want that the pod is absent", w.deleted)
				}
			})
		})
	}
}

// The watch may show the end of a pod while its deletion waits for another attempt.
func TestDeletionOfAPodThatWasForgottenEnds(t *testing.T) {
	run(t, 1, func(w *world) {
		w.fails("u", errors.New("connection refused"))
		w.d.Stored(step("u", messages.NewEvent(&journaletv1.ApiDeleteRequested{Uid: "u", Name: "p"})))
		<-time.After(time.Minute)
		before := len(w.all())
		forgotten := step("u", messages.NewEvent(&journaletv1.PodForgotten{Uid: "u"}))
		forgotten.Actor = messages.Source("api").Proto()
		w.d.Stored(forgotten)
		w.fails("u", gone)
		<-time.After(5 * time.Minute)
		if n := len(w.all()) - before; before < 4 || n > 0 || len(w.deleted) > 0 {
			t.Errorf("%d requests, then %d more and the outcomes %v, want none", before, n, w.deleted)
		}
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

// limit makes each request wait for a turn of its own: one a second, urgent ones first.
func (w *world) limit() (turns *[]string) {
	var mu sync.Mutex
	var had []string
	next := time.Now()
	w.d.opts.Turn = func(ctx context.Context, urgent bool, giveUp <-chan struct{}) (context.Context, bool, error) {
		mu.Lock()
		if urgent {
			had = append(had, "urgent")
			mu.Unlock()
			return ctx, false, nil
		}
		next = next.Add(time.Second)
		wait := time.Until(next)
		mu.Unlock()
		select {
		case <-time.After(wait):
			mu.Lock()
			had = append(had, "other")
			mu.Unlock()
			return ctx, true, nil
		case <-giveUp:
			return nil, true, errors.New("given up")
		}
	}
	return &had
}

func TestExitDoesNotWaitBehindTheTurnOfItsOwnPod(t *testing.T) {
	run(t, 1, func(w *world) {
		turns := w.limit()
		w.add("u", corev1.PodPending)
		w.want("u", corev1.PodRunning, true)
		w.d.Stored(start("u"))
		<-time.After(gather + 100*time.Millisecond) // it waits for its turn now
		w.want("u", corev1.PodFailed, false)
		w.d.Stored(exit("u"))
		<-time.After(10 * time.Second)
		w.requests(t, "300ms patch Failed u")
		if got := strings.Join(*turns, " "); got != "urgent" {
			t.Errorf("turns %q, want one", got)
		}
	})
}

func TestWhatIsSentAfterAWaitIsTheNewest(t *testing.T) {
	run(t, 1, func(w *world) {
		w.limit()
		w.add("u", corev1.PodPending)
		w.want("u", corev1.PodPending, true)
		w.wanted["u"].View.Status.Message = "old"
		w.d.Stored(start("u"))
		<-time.After(gather + 100*time.Millisecond)
		w.want("u", corev1.PodRunning, true)
		<-time.After(10 * time.Second)
		w.requests(t, "1s patch Running u")
	})
}

func TestUrgentPodsHaveWorkersOfTheirOwn(t *testing.T) {
	run(t, 4, func(w *world) {
		w.takes = time.Second
		w.start(8)
		<-time.After(gather + 100*time.Millisecond)
		w.d.Stored(exit("u6"))
		w.d.Stored(exit("u7"))
		<-time.After(10 * time.Second)
		all := w.all()
		if len(all) != 8 {
			t.Fatalf("requests %q", all)
		}
		first := strings.Join(all[:4], " ")
		if !strings.Contains(first, "1.3s patch Running u6") || !strings.Contains(first, "1.3s patch Running u7") {
			t.Errorf("two of four workers are free for urgent pods; requests\n%s", strings.Join(all, "\n"))
		}
	})
}

func TestReturnOfTheServerShortensPauses(t *testing.T) {
	run(t, 1, func(w *world) {
		w.add("u", corev1.PodPending)
		w.want("u", corev1.PodRunning, true)
		w.fails("u", errors.New("connection refused"))
		w.d.Stored(exit("u"))
		<-time.After(time.Minute) // pauses are 30 s by now
		n := len(w.all())
		w.fails("u", nil)
		close(w.returned)
		<-time.After(backOffLeast)
		if got := len(w.all()); got != n+1 {
			t.Errorf("%d requests after the return, want one", got-n)
		}
	})
}
