package probe

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	startup   = journaletv1.ProbeKind_PROBE_KIND_STARTUP
	liveness  = journaletv1.ProbeKind_PROBE_KIND_LIVENESS
	readiness = journaletv1.ProbeKind_PROBE_KIND_READINESS
)

// world is a node with commands that a test defines. In a bubble of synctest its time is the bubble's.
type world struct {
	mu       sync.Mutex
	runs     map[string][]time.Duration // when commands ran, since began, by instance
	reported []*journaletv1.ProbeResult
	// command returns the result of the nth command in an instance; by default it succeeds at once.
	command       func(ctx context.Context, id string, n int) (*runtimeapi.ExecSyncResponse, error)
	refuse        bool // the sink fails
	noManifest    bool // no manifest can be read
	manifestReads int
	pods          map[string]*corev1.Pod
	observed      []Run
	forgot        []string
	began         time.Time
}

func newWorld() *world {
	return &world{runs: map[string][]time.Duration{}, pods: map[string]*corev1.Pod{}, began: time.Now()}
}

// Invoke implements the connection to the runtime.
func (w *world) Invoke(ctx context.Context, _ string, args, reply any, _ ...grpc.CallOption) error {
	id := args.(*runtimeapi.ExecSyncRequest).GetContainerId()
	w.mu.Lock()
	w.runs[id] = append(w.runs[id], time.Since(w.began))
	n, command := len(w.runs[id]), w.command
	w.mu.Unlock()
	if command == nil {
		return nil
	}
	resp, err := command(ctx, id, n)
	if resp != nil {
		proto.Merge(reply.(proto.Message), resp)
	}
	return err
}

// NewStream is not used.
func (w *world) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

func (w *world) manifest(_ context.Context, digest string) (*corev1.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.manifestReads++
	if w.noManifest || w.pods[digest] == nil {
		return nil, errors.New("no such manifest")
	}
	return w.pods[digest], nil
}

func (w *world) sink(_ context.Context, r *journaletv1.ProbeResult) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse {
		return errors.New("the journal is full")
	}
	w.reported = append(w.reported, r)
	return nil
}

// driver returns a driver in this world. It does nothing before start.
func (w *world) driver() *Driver {
	return New(Options{
		Conn: w, Manifest: w.manifest, Sink: w.sink, HostIPs: func() []string { return []string{"192.0.2.1"} },
		Observe: func(r Run) { w.mu.Lock(); w.observed = append(w.observed, r); w.mu.Unlock() },
		Forget:  func(_, name, _ string) { w.mu.Lock(); w.forgot = append(w.forgot, name); w.mu.Unlock() },
	})
}

// start runs a driver until the end of the test.
func start(t *testing.T, d *Driver) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

func (w *world) start(t *testing.T) *Driver {
	t.Helper()
	d := w.driver()
	start(t, d)
	return d
}

// inBubble runs a test with a world whose time passes when everything waits.
func inBubble(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld()) })
}

// pod adds a pod with these probes of its container main. Its name is its UID and digest.
func (w *world) pod(name string, probes map[journaletv1.ProbeKind]*corev1.Probe) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[name] = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", StartupProbe: probes[startup], LivenessProbe: probes[liveness], ReadinessProbe: probes[readiness],
		}}},
	}
}

// probe adds pod "a" with these probes and returns a driver that runs the probes of the given kinds.
func (w *world) probe(t *testing.T, probes kinds, set ...journaletv1.ProbeKind) *Driver {
	t.Helper()
	w.pod("a", probes)
	d := w.driver()
	start(t, d)
	d.Stored(stored("a", probesSet("a", set...)))
	return d
}

// exec returns an exec probe with the API's defaults and a period of 1 s.
func exec(change ...func(*corev1.Probe)) *corev1.Probe {
	p := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}},
		PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// probesSet returns a decision about the instance "<pod>-0", which starts now.
func probesSet(pod string, kinds ...journaletv1.ProbeKind) *journaletv1.ProbesSet {
	return &journaletv1.ProbesSet{
		Container: "main", ContainerId: pod + "-0", Kinds: kinds, Digest: pod, PodIps: []string{"127.0.0.1"},
		StartedAt: timestamppb.Now(),
	}
}

func stored(pod string, s *journaletv1.ProbesSet) *journaletv1.Record {
	return decided(pod, messages.NewEvent(s))
}

func decided(pod string, e *journaletv1.Event) *journaletv1.Record {
	return &journaletv1.Record{
		Actor: messages.Pod(pod).Proto(),
		Body:  &journaletv1.Record_Step{Step: &journaletv1.Step{Decisions: []*journaletv1.Event{e}}},
	}
}

// ranAt returns when commands ran in an instance.
func (w *world) ranAt(id string) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.runs[id])
}

// results returns the reported results, in short.
func (w *world) results() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, r := range w.reported {
		text := Title(r.GetKind()) + " of " + r.GetContainerId() + " ok"
		if !r.GetSuccess() {
			text = r.GetMessage()
		}
		out = append(out, text)
	}
	return out
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// pass waits for a time, and for what is due until then. It is for bubbles of synctest, where time passes only when all
// goroutines wait.
func pass(d time.Duration) { <-time.After(d) }

// statusOf returns an error of a context as a gRPC connection does.
func statusOf(err error) error { return status.FromContextError(err).Err() }

func exits(code int32, stderr string) (*runtimeapi.ExecSyncResponse, error) {
	return &runtimeapi.ExecSyncResponse{ExitCode: code, Stderr: []byte(stderr)}, nil
}
