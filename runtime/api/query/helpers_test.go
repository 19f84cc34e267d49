package query

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

const testNode = "node-1.example"

var quietLog = slog.New(slog.NewTextHandler(io.Discard, nil))

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// fakeHost holds deciders and inspects them under one lock.
type fakeHost struct {
	mu          sync.Mutex
	actors      map[messages.Ref]actors.Decider
	order       []messages.Ref
	quarantined map[messages.Ref]*journaletv1.Quarantined
	lifts       error // why LiftQuarantine fails without skip; nil: it does not
	stuck       map[messages.Ref]bool
}

func (h *fakeHost) Inspect(ctx context.Context, ref messages.Ref, f func(actors.Decider)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.actors[ref]
	switch {
	case d == nil:
		return errors.New("no such actor")
	case h.stuck[ref]:
		<-ctx.Done()
		return ctx.Err()
	}
	f(d)
	return nil
}

func (h *fakeHost) Refs(kind journaletv1.ActorKind) []messages.Ref {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []messages.Ref
	for _, r := range h.order {
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	return out
}

func (h *fakeHost) LiftQuarantine(ref messages.Ref, skip bool) error {
	if h.lifts != nil && !skip {
		return h.lifts
	}
	delete(h.quarantined, ref)
	return nil
}

func (h *fakeHost) Quarantines() map[messages.Ref]*journaletv1.Quarantined { return h.quarantined }

func (h *fakeHost) add(ref messages.Ref, d actors.Decider) {
	h.actors[ref] = d
	h.order = append(h.order, ref)
}

// at returns a fixed time plus n seconds.
func at(n int) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
}

func podRef(uid, namespace, name string) *journaletv1.PodRef {
	return &journaletv1.PodRef{Uid: uid, Namespace: namespace, Name: name, Digest: "sha256:00"}
}

// addPod adds the actor of a pod that a source has added.
func (h *fakeHost) addPod(t testing.TB, uid, namespace, name string, notes ...string) {
	t.Helper()
	a := pod.New(uid)
	err := a.Evolve(actors.Event{
		Seq: 1, Time: at(0), Author: messages.Source(messages.FileSource), Body: added(uid, namespace, name),
		Manifest: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Annotations: map[string]string{"note": strings.Join(notes, "")},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36"}}},
		},
	})
	must.OK(t, err)
	h.add(messages.Pod(uid), a)
}

func added(uid, namespace, name string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Pod: podRef(uid, namespace, name), Source: messages.FileSource,
	})
}

// testAgent is an agent without its deciders: a real bus with the services on it.
type testAgent struct {
	t        testing.TB
	bus      *bus.Bus
	host     *fakeHost
	dir      string
	stop     func()
	mute     atomic.Bool // stored records are not published
	withhold bool        // from the next start on
}

func newTestAgent(t testing.TB) *testAgent {
	t.Helper()
	w := &testAgent{t: t,
		dir: filepath.Join(t.TempDir(), "bus"),
		host: &fakeHost{
			actors: map[messages.Ref]actors.Decider{}, stuck: map[messages.Ref]bool{},
			quarantined: map[messages.Ref]*journaletv1.Quarantined{},
		},
	}
	w.start(t)
	t.Cleanup(func() { w.end(t) })
	return w
}

func (w *testAgent) start(t testing.TB) {
	t.Helper()
	b, err := bus.Open(testContext(t), bus.Options{Dir: w.dir, Node: testNode, Log: quietLog,
		Sync: bus.SyncPolicy{Interval: time.Minute}})
	must.OK(t, err)
	w.bus = b
	b.Journal().OnStored(func(recs []*journaletv1.Record) {
		for _, rec := range recs {
			if !w.mute.Load() {
				b.Observers().Publish(rec)
			}
		}
	})
	w.stop, err = Serve(context.Background(), Options{
		Conn: b.Services(), Host: w.host, Journal: b.Journal(), Node: testNode, Version: "v1.2.3-rc.1",
		Epoch:    b.Opening().Epoch,
		NodeView: func() pod.Node { return pod.Node{HostIPs: []string{"192.0.2.1"}, RuntimeName: "containerd"} },
		Started:  at(0), Log: quietLog, Withhold: w.withhold,
	})
	must.OK(t, err)
}

func (w *testAgent) end(t testing.TB) {
	t.Helper()
	if w.stop == nil {
		return
	}
	w.stop()
	w.stop = nil
	if err := w.bus.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

// client connects as the commands do.
func (w *testAgent) client(t testing.TB, opts ...nats.Option) *Client {
	t.Helper()
	nc, err := bus.Dial(testContext(t), w.dir, opts...)
	must.OK(t, err)
	t.Cleanup(nc.Close)
	c, err := NewLocalClient(testContext(t), nc, func(ctx context.Context) (*nats.Conn, error) {
		return bus.Listen(ctx, w.dir, opts...)
	})
	must.OK(t, err)
	return c
}

func (w *testAgent) fact(ref messages.Ref, sec int, e *journaletv1.Event) {
	body := &journaletv1.Record_Fact{Fact: e}
	must.OK(w.t, w.bus.Journal().Append(&journaletv1.Record{
		Time: timestamppb.New(at(sec)), Actor: ref.Proto(), Body: body,
	}))
}

func (w *testAgent) step(ref messages.Ref, sec int, cause uint64, decisions ...*journaletv1.Event) {
	body := &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: cause, Decisions: decisions}}
	must.OK(w.t, w.bus.Journal().Append(&journaletv1.Record{
		Time: timestamppb.New(at(sec)), Actor: ref.Proto(), Body: body,
	}))
}

func (w *testAgent) flush(t testing.TB) {
	t.Helper()
	must.OK(t, w.bus.Journal().Flush(testContext(t)))
}

func observed(uid string, containers ...*journaletv1.ContainerObservation) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodObserved{Uid: uid, Containers: containers})
}

func container(id string, attempt uint32, state journaletv1.ContainerState, exit int32,
	reason string) *journaletv1.ContainerObservation {
	return &journaletv1.ContainerObservation{Id: id, Name: "main", Attempt: attempt, State: state,
		ExitCode: exit, Reason: reason}
}

func startCall(attempt uint32) *journaletv1.Event {
	return messages.NewEvent(messages.NewCall(&journaletv1.StartContainer{Container: "main", Attempt: attempt}))
}

func callResult(intent, requester string, err journaletv1.CallError, message string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.CallFinished{
		IntentId: intent, Requester: requester, Error: err, Message: message,
	})
}

func timerSet(name string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.TimerSet{Name: name, Generation: 1, Duration: durationpb.New(time.Second)})
}

func backOff(d time.Duration) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.BackOffStarted{Container: "main", Delay: durationpb.New(d)})
}

func crashLoop(message string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodStatusChanged{
		Phase:   journaletv1.PodPhase_POD_PHASE_RUNNING,
		Waiting: map[string]*journaletv1.ContainerWaiting{"main": {Reason: "CrashLoopBackOff", Message: message}},
	})
}

func imagePullDecided(uid string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.ImagePullDecided{
		Uid: uid, Image: "busybox:1.36", Duration: durationpb.New(1234 * time.Millisecond), Bytes: 3 << 20,
	})
}
