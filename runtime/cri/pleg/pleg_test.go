package pleg_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/pleg"
	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/must"
)

const (
	busybox = "docker.io/library/busybox:1.36"
	agent   = "agent-1"
)

type rig struct {
	t       *testing.T
	dir     string
	runtime *sim.Runtime
	rt      runtimeapi.RuntimeServiceClient
	conn    *grpc.ClientConn
	clock   *clock.Manual
	pleg    *pleg.PLEG
	// observed receives the reported observations.
	observed chan *journaletv1.PodObserved
	// timeout is the timeout of an inspection.
	timeout time.Duration
}

// newRig returns a PLEG that does a step when the test calls relist or hint, or all by itself after run.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), observed: make(chan *journaletv1.PodObserved, 100), timeout: time.Minute}
	r.clock = clock.NewManual(time.Unix(1_000_000, 0))
	r.runtime = sim.New(sim.Options{
		Images: []string{busybox}, WriteMounts: true,
		Behaviour: func(*runtimeapi.ContainerConfig) (sim.Behaviour, bool) {
			return sim.Behaviour{RunFor: sim.Forever}, true
		},
	})
	t.Cleanup(r.runtime.Close)
	conn, err := r.runtime.Dial()
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r.conn, r.rt = conn, runtimeapi.NewRuntimeServiceClient(conn)
	r.pleg = r.newPLEG(r.sink)
	return r
}

func (r *rig) sink(_ context.Context, o *journaletv1.PodObserved) error {
	r.observed <- o
	return nil
}

func (r *rig) newPLEG(sink func(context.Context, *journaletv1.PodObserved) error) *pleg.PLEG {
	return pleg.New(pleg.Options{
		Conn: r.conn, Owner: cri.Owner{AgentID: agent}, RootDir: r.dir,
		PodLogDir: filepath.Join(r.dir, "logs"), Clock: r.clock,
		InspectTimeout: r.timeout, Sink: sink,
	})
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = r.pleg.Run(ctx) })
	r.t.Cleanup(func() { cancel(); running.Wait() })
}

// eventually polls, because no event signals what PLEG or the simulated runtime does by itself.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	must.Until(r.t, 2*time.Minute, what, ok)
}

// relistsUntil advances the clock of a running PLEG until something is reported.
func (r *rig) relistsUntil(what string) *journaletv1.PodObserved {
	r.t.Helper()
	r.eventually(what, func() bool { r.clock.Advance(pleg.RelistWithEvents); return len(r.observed) > 0 })
	return r.next()
}

// relist relists once and inspects every pod that waits, in the test's goroutine.
func (r *rig) relist() {
	r.t.Helper()
	if err := r.pleg.Relist(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.inspect()
}

func (r *rig) inspect() {
	for _, failed := range []bool{false, true} {
		for inspect := r.pleg.Next(failed); inspect != nil; inspect = r.pleg.Next(failed) {
			inspect(context.Background())
		}
	}
}

func (r *rig) hint(uid string) {
	r.pleg.Hint(uid)
	r.inspect()
}

// nothing checks that nothing more was reported.
func (r *rig) nothing() {
	r.t.Helper()
	if len(r.observed) != 0 {
		r.t.Errorf("reported %v", <-r.observed)
	}
}

func (r *rig) next() *journaletv1.PodObserved {
	r.t.Helper()
	select {
	case o := <-r.observed:
		return o
	case <-time.After(time.Minute):
		r.t.Fatal("nothing was reported")
		return nil
	}
}

// until returns the first observation that is ok.
func (r *rig) until(what string, ok func(*journaletv1.PodObserved) bool) *journaletv1.PodObserved {
	r.t.Helper()
	for {
		if o := r.next(); ok(o) {
			return o
		}
	}
}

func shows(state journaletv1.ContainerState) func(*journaletv1.PodObserved) bool {
	return func(o *journaletv1.PodObserved) bool {
		return len(o.GetContainers()) == 1 && o.GetContainers()[0].GetState() == state
	}
}

func get[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		must.OK(t, err)
		return v
	}
}

func (r *rig) start(uid, owner string, change func(*runtimeapi.ContainerConfig)) (sandbox, container string) {
	r.t.Helper()
	ctx := context.Background()
	sc, sandbox := r.sandbox(uid, owner, 0)
	cc := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Image: &runtimeapi.ImageSpec{Image: busybox},
		Command: []string{"x"}, LogPath: "main.log",
		Labels: sc.GetLabels(), Annotations: sc.GetAnnotations(), Linux: &runtimeapi.LinuxContainerConfig{},
	}
	if change != nil {
		change(cc)
	}
	container = get[*runtimeapi.CreateContainerResponse](r.t)(r.rt.CreateContainer(ctx,
		&runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: cc, SandboxConfig: sc})).GetContainerId()
	get[*runtimeapi.StartContainerResponse](r.t)(r.rt.StartContainer(ctx,
		&runtimeapi.StartContainerRequest{ContainerId: container}))
	return sandbox, container
}

func (r *rig) remove(sandbox string) {
	r.t.Helper()
	get[*runtimeapi.RemovePodSandboxResponse](r.t)(r.rt.RemovePodSandbox(r.t.Context(),
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}))
}

// sandbox runs a sandbox of a pod.
func (r *rig) sandbox(uid, owner string, attempt uint32) (*runtimeapi.PodSandboxConfig, string) {
	r.t.Helper()
	return r.sandboxNamed("name-of-"+uid, uid, owner, attempt)
}

// sandboxNamed runs a sandbox of a pod with a name.
func (r *rig) sandboxNamed(
	name, uid, owner string, attempt uint32,
) (*runtimeapi.PodSandboxConfig, string) {
	r.t.Helper()
	sc := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: uid, Namespace: "default", Uid: uid, Attempt: attempt},
		Labels: map[string]string{
			cri.LabelPodUID: uid, cri.LabelPodNamespace: "default", cri.LabelPodName: name,
		},
		Annotations: map[string]string{
			cri.AnnotationIntent: "i-" + uid, cri.AnnotationAgent: owner, cri.AnnotationHash: "cafe",
		},
		LogDirectory: filepath.Join(r.dir, "logs"), Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{}},
		},
	}
	return sc, get[*runtimeapi.RunPodSandboxResponse](r.t)(r.rt.RunPodSandbox(r.t.Context(),
		&runtimeapi.RunPodSandboxRequest{Config: sc})).GetPodSandboxId()
}

// Sandboxes of one UID have two names after a pod got another name while the journal was lost.
func TestPodHasTheNameOfItsNewestSandbox(t *testing.T) {
	r := newRig(t)
	for attempt, name := range []string{"earlier", "later"} {
		r.sandboxNamed(name, "u1", agent, uint32(attempt))
	}
	r.relist()
	o := r.until("two sandboxes", func(o *journaletv1.PodObserved) bool { return len(o.GetSandboxes()) == 2 })
	if o.GetPodName() != "later" {
		t.Errorf("the pod has the name %q", o.GetPodName())
	}
}

func TestReportsLifecycleOfOwnPodsOnly(t *testing.T) {
	r := newRig(t)
	r.start("foreign", "a kubelet", nil)
	sandbox, container := r.start("u1", agent, nil)
	r.relist()
	o := r.until("running", shows(journaletv1.ContainerState_CONTAINER_STATE_RUNNING))
	s, c := o.GetSandboxes()[0], o.GetContainers()[0]
	if o.GetPodNamespace() != "default" || o.GetPodName() != "name-of-u1" {
		t.Errorf("the first observation has the name %s/%s", o.GetPodNamespace(), o.GetPodName())
	}
	if o.GetUid() != "u1" || s.GetId() != sandbox || s.GetState() != journaletv1.SandboxState_SANDBOX_STATE_READY ||
		len(s.GetIps()) == 0 || s.GetIntentId() != "i-u1" || s.GetNetwork() != journaletv1.NetworkMode_NETWORK_MODE_POD {
		t.Errorf("sandbox %v", s)
	}
	if c.GetId() != container || c.GetName() != "main" || c.GetHash() != "cafe" || c.GetIntentId() != "i-u1" ||
		c.GetStartedAt() == nil || c.GetImageRef() == "" {
		t.Errorf("container %v", c)
	}
	must.OK(t, r.runtime.Kill(container, 7))
	r.hint("u1")
	o = r.until("exited", shows(journaletv1.ContainerState_CONTAINER_STATE_EXITED))
	c = o.GetContainers()[0]
	if o.GetPodName() != "" {
		t.Error("a later observation has the name again")
	}
	if c.GetExitCode() != 7 || c.GetFinishedAt() == nil || c.GetReason() == "" {
		t.Errorf("container %v", c)
	}
	r.remove(sandbox)
	r.hint("u1")
	last := r.until("gone",
		func(o *journaletv1.PodObserved) bool { return len(o.GetSandboxes())+len(o.GetContainers()) == 0 })
	if last.GetUid() != "u1" {
		t.Errorf("observation of %s", last.GetUid())
	}
	for range 3 {
		r.relist()
	}
	if err := r.pleg.Healthy(); err != nil {
		t.Error(err)
	}
	r.nothing()
}

func TestEventTriggersInspection(t *testing.T) {
	r := newRig(t)
	r.run() // the clock stands still: no second relist
	r.eventually("an event stream", func() bool { return r.runtime.Subscribers() > 0 })
	_, container := r.start("u1", agent, nil)
	r.pleg.Hint("u1") // as at the end of the agent's call; the event of a start does not trigger an inspection
	r.until("running", shows(journaletv1.ContainerState_CONTAINER_STATE_RUNNING))
	must.OK(t, r.runtime.Kill(container, 1))
	r.until("exited", shows(journaletv1.ContainerState_CONTAINER_STATE_EXITED))
}

func TestRelistFindsChangeWithoutEvent(t *testing.T) {
	r := newRig(t)
	r.runtime.Inject(sim.Fault{Method: "GetContainerEvents", Err: status.Error(codes.Unimplemented, "no events")})
	r.run()
	_, container := r.start("u1", agent, nil)
	for !shows(journaletv1.ContainerState_CONTAINER_STATE_RUNNING)(r.relistsUntil("the start")) {
	}
	must.OK(t, r.runtime.KillOOM(container))
	c := r.relistsUntil("the end").GetContainers()[0]
	if c.GetReason() != "OOMKilled" || c.GetExitCode() != 137 {
		t.Errorf("container %v", c)
	}
}

func TestLostNetworkIsReportedWhenAContainerEnds(t *testing.T) {
	r := newRig(t)
	sandbox, container := r.start("uid-1", agent, nil)
	r.relist()
	for len(r.observed) > 0 {
		if o := r.next(); o.GetSandboxes()[0].GetNoAddress() || len(o.GetSandboxes()[0].GetIps()) == 0 {
			t.Errorf("a sandbox with an address: %v", o.GetSandboxes()[0])
		}
	}
	must.OK(t, r.runtime.LoseNetwork(sandbox))
	r.hint("uid-1")
	r.nothing() // no call reads what nothing suggests has changed
	must.OK(t, r.runtime.Kill(container, 1))
	r.hint("uid-1")
	if s := r.next().GetSandboxes()[0]; !s.GetNoAddress() || len(s.GetIps()) != 0 ||
		s.GetState() != journaletv1.SandboxState_SANDBOX_STATE_READY {
		t.Errorf("after the container's end: %v", s)
	}
}

func TestSeededObservationIsNotReportedAgain(t *testing.T) {
	r := newRig(t)
	r.start("u1", agent, nil)
	r.relist()
	known := r.until("running", shows(journaletv1.ContainerState_CONTAINER_STATE_RUNNING))

	gone := &journaletv1.PodObserved{Uid: "gone", ObservedAt: known.GetObservedAt(),
		Containers: []*journaletv1.ContainerObservation{{Id: "c", Name: "main"}}}
	buried := &journaletv1.PodObserved{Uid: "buried", ObservedAt: known.GetObservedAt()}
	r.pleg = r.newPLEG(func(_ context.Context, o *journaletv1.PodObserved) error { r.observed <- o; return nil })
	r.pleg.Seed([]*journaletv1.PodObserved{proto.Clone(known).(*journaletv1.PodObserved), gone, buried})
	r.runtime.ResetCalls()
	r.relist()
	o := r.next()
	if o.GetUid() != "gone" || len(o.GetContainers()) != 0 || o.GetObservedAt() == nil {
		t.Errorf("reported %v", o)
	}
	r.hint("u1") // its inspection finds nothing new
	r.hint("buried")
	r.relist()
	r.relist()
	r.nothing()
	if n := r.runtime.Calls()["ContainerStatus"]; n != 0 {
		t.Errorf("%d status calls for seeded objects", n)
	}
}

func TestExpectedInspectionIsReportedUnchanged(t *testing.T) {
	r := newRig(t)
	r.start("u1", agent, nil)
	r.relist()
	first := r.next()
	// As after a start whose container is gone at the inspection.
	r.pleg.Expect("u1")
	r.hint("u1")
	again := r.next()
	if !again.GetObservedAt().AsTime().After(first.GetObservedAt().AsTime()) {
		t.Errorf("observed at %v, after %v", again.GetObservedAt().AsTime(), first.GetObservedAt().AsTime())
	}
	if len(again.GetContainers()) != 1 || !proto.Equal(again.GetContainers()[0], first.GetContainers()[0]) {
		t.Errorf("reported %v, after %v", again, first)
	}
	r.hint("u1")
	r.relist()
	r.relist()
	r.nothing()
}

func TestExpectedEmptyInspectionIsReportedOnce(t *testing.T) {
	r := newRig(t)
	r.start("u1", agent, nil)
	r.pleg.Expect("u1")
	r.pleg.Expect("nothing")
	r.relist()
	observed := map[string]*journaletv1.PodObserved{}
	for len(observed) < 2 {
		o := r.next()
		observed[o.GetUid()] = o
	}
	if o := observed["nothing"]; o == nil || o.GetObservedAt() == nil ||
		len(o.GetSandboxes())+len(o.GetContainers()) != 0 {
		t.Errorf("reported %v", o)
	}
	if o := observed["u1"]; len(o.GetContainers()) != 1 {
		t.Errorf("reported %v", o)
	}
	r.hint("nothing")
	r.relist()
	r.relist()
	r.nothing()
}

func TestIdleRelistIsTwoCalls(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		r.start(fmt.Sprintf("u%d", i), agent, nil)
	}
	r.relist()
	for range 5 {
		r.next()
	}
	r.runtime.ResetCalls()
	for range 4 {
		r.relist()
	}
	if calls := r.runtime.Calls(); len(calls) != 2 || calls["ListPodSandbox"] != 4 || calls["ListContainers"] != 4 {
		t.Errorf("calls %v", calls)
	}
}

func TestHangingPodDelaysNoOther(t *testing.T) {
	r := newRig(t)
	r.timeout = 2 * time.Second // of inspections that hang
	r.pleg = r.newPLEG(r.sink)
	var hung []string
	for i := range 12 {
		_, c := r.start(fmt.Sprintf("hung-%d", i), agent, nil)
		hung = append(hung, c)
	}
	remove := r.runtime.Inject(sim.Fault{Method: "ContainerStatus", Hang: true, Match: func(req any) bool {
		for _, c := range hung {
			if req.(*runtimeapi.ContainerStatusRequest).GetContainerId() == c {
				return true
			}
		}
		return false
	}})
	r.run()
	r.start("well", agent, nil)
	r.pleg.Hint("well")
	r.until("well", func(o *journaletv1.PodObserved) bool {
		return o.GetUid() == "well" && shows(journaletv1.ContainerState_CONTAINER_STATE_RUNNING)(o)
	})
	remove()
	seen := map[string]bool{}
	for len(seen) < len(hung) {
		if o := r.relistsUntil("the pods that hung"); shows(journaletv1.ContainerState_CONTAINER_STATE_RUNNING)(o) {
			seen[o.GetUid()] = true
		}
	}
}

// defective panics where the status of one container is inspected, until it is mended.
type defective struct {
	grpc.ClientConnInterface
	container string
}

func (d *defective) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if req, is := args.(*runtimeapi.ContainerStatusRequest); is && req.GetContainerId() == d.container {
		panic("s3cret")
	}
	return d.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// An inspection that panics costs no other pod anything, is repeated, and logs its stack once.
func TestPodWhoseInspectionPanicsIsInspectedAgain(t *testing.T) {
	r := newRig(t)
	_, container := r.start("u1", agent, nil)
	r.start("u2", agent, nil)
	conn, log := &defective{r.conn, container}, &bytes.Buffer{}
	r.pleg = pleg.New(pleg.Options{
		Conn: conn, Owner: cri.Owner{AgentID: agent}, RootDir: r.dir, PodLogDir: filepath.Join(r.dir, "logs"),
		Clock: r.clock, Sink: r.sink, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	for range 3 {
		r.relist()
	}
	if o := r.next(); o.GetUid() != "u2" {
		t.Errorf("reported %v", o)
	}
	r.nothing()
	if n := strings.Count(log.String(), "stack="); n != 1 || strings.Contains(log.String(), "s3cret") {
		t.Errorf("the log has %d stacks:\n%s", n, log)
	}
	conn.container = ""
	r.relist()
	if o := r.next(); o.GetUid() != "u1" {
		t.Errorf("reported %v", o)
	}
}

func TestFailedReportIsRepeated(t *testing.T) {
	r := newRig(t)
	r.start("u1", agent, nil)
	var tried []string
	r.pleg = r.newPLEG(func(_ context.Context, o *journaletv1.PodObserved) error {
		if tried = append(tried, o.GetUid()); len(tried) == 1 {
			return fmt.Errorf("journal full")
		}
		return nil
	})
	for range 3 {
		r.relist()
	}
	if len(tried) != 2 || tried[0] != "u1" || tried[1] != "u1" {
		t.Errorf("reported %v", tried)
	}
}

func TestPodIsInspectedOnceWhatTheRuntimeHadWasReported(t *testing.T) {
	r := newRig(t)
	r.start("u1", agent, nil)
	refused := true
	var reported *journaletv1.PodObserved
	r.pleg = r.newPLEG(func(_ context.Context, o *journaletv1.PodObserved) error {
		if refused {
			return fmt.Errorf("journal full")
		}
		reported = o
		return nil
	})
	is := func(when string, found, other bool) {
		t.Helper()
		if r.pleg.Inspected("u1") != found || r.pleg.Inspected("u2") != other {
			t.Errorf("%s: the pod with a container %v, the other %v", when, !found, !other)
		}
	}
	is("before the first relist", false, false)
	must.OK(t, r.pleg.Relist(t.Context()))
	is("listed", false, true)
	r.inspect()
	is("after a report that failed", false, true)
	refused = false
	r.relist()
	is("reported, and not stored yet", false, true)
	r.pleg.Hint("u1")
	r.inspect()
	is("inspected again without a change", false, true)
	r.pleg.Stored(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(reported)}})
	is("stored", true, true)
	r.start("u2", agent, nil)
	must.OK(t, r.pleg.Relist(t.Context()))
	is("a pod that came later", true, true)
}

// An event of the runtime has a pod inspected before the first relist, which finds it as it was reported.
func TestPodOfAnEventBeforeTheFirstRelistIsWaitedFor(t *testing.T) {
	r := newRig(t)
	r.start("u1", agent, nil)
	var reported *journaletv1.PodObserved
	r.pleg = r.newPLEG(func(_ context.Context, o *journaletv1.PodObserved) error {
		reported = o
		return nil
	})
	r.pleg.Hint("u1")
	r.inspect()
	must.OK(t, r.pleg.Relist(t.Context()))
	if r.pleg.Inspected("u1") {
		t.Error("its observation is not stored yet")
	}
	r.pleg.Stored(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(reported)}})
	if !r.pleg.Inspected("u1") {
		t.Error("it is stored, and waited for")
	}
}

// PLEG does not wait for a pod that the first relist found and that was forgotten before its inspection was reported: a
// later pod with its UID may never have anything that an inspection shows.
func TestPodThatIsGoneIsNotWaitedFor(t *testing.T) {
	r := newRig(t)
	sandbox, _ := r.start("u1", agent, nil)
	forgets := true
	r.pleg = r.newPLEG(func(context.Context, *journaletv1.PodObserved) error {
		if forgets {
			r.pleg.Forget("u1")
		}
		return fmt.Errorf("journal full")
	})
	r.relist()
	if r.pleg.Inspected("u1") {
		t.Error("reported while the journal is full")
	}
	forgets = false
	r.remove(sandbox)
	r.relist()
	if !r.pleg.Inspected("u1") {
		t.Error("it is gone, and waited for")
	}
}

// An inspection without a change ends the wait, if nothing that was sent waits to be stored.
func TestPodThatIsAsItWasIsNotWaitedFor(t *testing.T) {
	r := newRig(t)
	r.start("u1", agent, nil)
	var stored []*journaletv1.PodObserved
	r.pleg = r.newPLEG(func(_ context.Context, o *journaletv1.PodObserved) error {
		stored = append(stored, o)
		r.pleg.Stored(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(o)}})
		return nil
	})
	r.hint("u1") // a hint that comes before the first relist
	if len(stored) != 1 {
		t.Fatalf("reported %v", stored)
	}
	_, second := r.sandbox("u1", agent, 1)
	must.OK(t, r.pleg.Relist(t.Context()))
	if r.pleg.Inspected("u1") {
		t.Error("the second sandbox is reported before its inspection")
	}
	r.remove(second)
	r.inspect()
	if !r.pleg.Inspected("u1") {
		t.Error("it is waited for")
	}
}

func TestFailingRelistIsUnhealthy(t *testing.T) {
	r := newRig(t)
	if r.pleg.Healthy() == nil {
		t.Error("healthy before Run")
	}
	r.runtime.Inject(sim.Fault{Method: "ListPodSandbox", Err: status.Error(codes.Unknown, "broken")})
	r.run()
	r.eventually("Run begins", func() bool { return r.pleg.Healthy() == nil })
	r.clock.Advance(pleg.Threshold + 1)
	if err := r.pleg.Healthy(); err == nil || !strings.Contains(err.Error(), "threshold is 3m0s") {
		t.Errorf("got %v", err)
	}
}

func TestTerminationMessages(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(r.dir, "pods/u1")
	file := filepath.Join(dir, "message")
	outside := filepath.Join(r.dir, "secret")
	for path, text := range map[string]string{file: strings.Repeat("m", 5000), outside: "secret",
		filepath.Join(r.dir, "logs/default/main.log"): ""} {
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o750))
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	must.OK(t, os.Symlink(outside, filepath.Join(dir, "link")))
	for i, c := range []struct{ path, want string }{
		{file, strings.Repeat("m", 4096)}, {outside, ""}, {filepath.Join(dir, "link"), ""}, {filepath.Join(dir, "none"), ""},
	} {
		uid := fmt.Sprintf("u%d", i+1)
		_, id := r.start(uid, agent, func(cc *runtimeapi.ContainerConfig) {
			cc.Annotations = map[string]string{
				cri.AnnotationAgent: agent, cri.AnnotationTerminationMessagePath: "/t",
				cri.AnnotationTerminationMessagePolicy: string(corev1.TerminationMessageReadFile),
			}
			cc.Mounts = []*runtimeapi.Mount{{ContainerPath: "/t", HostPath: c.path}}
		})
		must.OK(t, r.runtime.Kill(id, 1))
		r.hint(uid)
		o := r.until("exited", func(o *journaletv1.PodObserved) bool {
			return o.GetUid() == uid && shows(journaletv1.ContainerState_CONTAINER_STATE_EXITED)(o)
		})
		if got := o.GetContainers()[0].GetMessage(); got != c.want {
			t.Errorf("%s: message of %d bytes, want %d", c.path, len(got), len(c.want))
		}
	}
}

func TestResourcesAreReportedOfContainersOfUnknownIntents(t *testing.T) {
	r := newRig(t)
	limited := func(c *runtimeapi.ContainerConfig) {
		c.Linux.Resources = &runtimeapi.LinuxContainerResources{CpuShares: 204, CpuPeriod: 100_000, CpuQuota: 30_000,
			MemoryLimitInBytes: 64 << 20}
	}
	r.start("found", agent, limited)
	r.start("silent", agent, nil)
	r.pleg.RegisterStart("known", "main", "i-known")
	r.start("known", agent, limited)
	r.relist()
	got := map[string]*journaletv1.Resources{}
	for len(got) < 3 {
		o := r.next()
		got[o.GetUid()] = o.GetContainers()[0].GetResources()
	}
	want := &journaletv1.Resources{CpuRequestMillis: 200, CpuLimitMillis: 300, MemoryLimitBytes: 64 << 20}
	if !proto.Equal(got["found"], want) {
		t.Errorf("resources of a container of an unknown intent: %v, want %v", got["found"], want)
	}
	if got["known"] != nil || got["silent"] != nil {
		t.Errorf("resources of a container of a registered intent: %v, and without resources on the runtime: %v; want none",
			got["known"], got["silent"])
	}
	r.pleg.Forget("known")
	r.relist()
	if o := r.next(); o.GetUid() != "known" || !proto.Equal(o.GetContainers()[0].GetResources(), want) {
		t.Errorf("after Forget: %v", o)
	}
}

// The runtime reports who runs and how it is mounted, and may have forgotten who ran.
func TestUserAndRecursiveMountsAreReportedAndKept(t *testing.T) {
	r := newRig(t)
	_, container := r.start("u1", agent, func(c *runtimeapi.ContainerConfig) {
		c.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{
			RunAsUser: &runtimeapi.Int64Value{Value: 1000}, RunAsGroup: &runtimeapi.Int64Value{Value: 3000},
			SupplementalGroups: []int64{4000},
		}
		c.Mounts = []*runtimeapi.Mount{
			{ContainerPath: "/a", HostPath: r.dir, Readonly: true, RecursiveReadOnly: true},
			{ContainerPath: "/b", HostPath: r.dir, Readonly: true},
		}
	})
	want := &journaletv1.ContainerUser{Uid: 1000, Gid: 3000, SupplementalGroups: []int64{3000, 4000}}
	r.relist()
	if c := r.next().GetContainers()[0]; !proto.Equal(c.GetUser(), want) || c.GetRecursiveReadOnlyMounts() != 1 {
		t.Errorf("user %v, %d mounts; want %v and 1", c.GetUser(), c.GetRecursiveReadOnlyMounts(), want)
	}
	_, err := r.rt.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: container})
	must.OK(t, err)
	r.relist()
	ended := r.until("ended", shows(journaletv1.ContainerState_CONTAINER_STATE_EXITED)).GetContainers()[0]
	if !proto.Equal(ended.GetUser(), want) || ended.GetRecursiveReadOnlyMounts() != 1 {
		t.Errorf("once it has ended: user %v, %d mounts", ended.GetUser(), ended.GetRecursiveReadOnlyMounts())
	}
}

func TestInspectionDuringWhichItsPodIsForgottenIsNotReported(t *testing.T) {
	r := newRig(t)
	r.start("u1", agent, nil)
	remove := r.runtime.Inject(sim.Fault{Method: "ContainerStatus", Match: func(any) bool {
		r.pleg.Forget("u1")
		return false
	}})
	r.relist()
	r.nothing()
	remove()
	r.relist()
	r.until("a new pod", shows(journaletv1.ContainerState_CONTAINER_STATE_RUNNING))
}

func TestInspectionDuringWhichItsPodIsCleanedUpIsRepeated(t *testing.T) {
	r := newRig(t)
	r.start("u1", agent, nil)
	inspections := 0
	r.runtime.Inject(sim.Fault{Method: "ContainerStatus", Match: func(any) bool {
		if inspections++; inspections == 1 {
			r.pleg.CleanedUp("u1")
		}
		return false
	}})
	r.relist()
	r.until("the pod", shows(journaletv1.ContainerState_CONTAINER_STATE_RUNNING))
	r.nothing()
	if inspections != 2 {
		t.Errorf("%d inspections, want a second one after the clean-up", inspections)
	}
}
