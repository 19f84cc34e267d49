package cri_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	busybox = "docker.io/library/busybox:1.36"
	uid     = "uid-1"
	digest  = "sha256:1"
)

type rig struct {
	t       *testing.T
	runtime *sim.Runtime
	conn    *grpc.ClientConn
	driver  *cri.Driver
	works   *calls.Works
	log     *slog.Logger
	pod     *corev1.Pod
	// manifest is how calls read manifests.
	manifest func(context.Context, string) (*corev1.Pod, error)
	dir      string
}

func newRig(t *testing.T, change func(*cri.Options)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.runtime = sim.New(sim.Options{
		Images: []string{busybox}, AnyImage: true, WriteMounts: true,
		Behaviour: func(c *runtimeapi.ContainerConfig) (sim.Behaviour, bool) {
			switch first := c.GetCommand()[0]; first {
			case "/talkative":
				return sim.Behaviour{StartError: "\x1b[2J" + strings.Repeat("x", 1<<20)}, true
			case "/missing":
				return sim.Behaviour{StartError: "exec: /missing: no such file"}, true
			case "/refused":
				return sim.Behaviour{StartError: c.GetCommand()[1]}, true
			case "/canceled-early":
				return sim.Behaviour{StartError: "failed to create containerd task: context canceled"}, true
			case "/canceled-shim":
				return sim.Behaviour{
					StartError: "failed to create containerd task: failed to start shim: start failed: : signal: killed",
				}, true
			case "/canceled-late":
				return sim.Behaviour{StartError: "failed to start containerd task: context canceled"}, true
			default:
				return sim.Behaviour{RunFor: sim.Forever}, true
			}
		},
	})
	t.Cleanup(r.runtime.Close)
	conn, err := r.runtime.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.conn = conn
	grace := int64(30)
	r.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: uid, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace, DNSPolicy: corev1.DNSDefault,
			Volumes: []corev1.Volume{{Name: "scratch",
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "main", Image: busybox, Command: []string{"sleep", "inf"},
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
			}},
		},
	}
	logs, links := filepath.Join(r.dir, "logs"), filepath.Join(r.dir, "links")
	opts := cri.Options{
		Conn: conn, Node: "node-1", Owner: cri.Owner{AgentID: "agent-1"}, PodLogDir: logs, ContainerLogDir: links,
		Hash: func(*corev1.Container) string { return "cafe" },
		Volumes: volume.New(volume.Options{
			RootDir: filepath.Join(r.dir, "root"), PodLogDir: logs, ContainerLogDir: links,
		}),
		Timeouts: cri.Timeouts{
			Call: time.Minute, Sandbox: 2 * time.Minute, Inspect: 3 * time.Minute,
			BackOff: time.Millisecond, MaxBackOff: 10 * time.Millisecond, ReservedName: 50 * time.Millisecond,
			Drain: time.Millisecond,
		},
	}
	if change != nil {
		change(&opts)
	}
	r.manifest = func(_ context.Context, d string) (*corev1.Pod, error) {
		if d != digest {
			return nil, errors.New("no such manifest")
		}
		return r.pod, nil
	}
	r.log, r.driver = opts.Log, cri.New(opts)
	r.performs(r.driver)
	return r
}

// performs has the rig's calls performed by a driver.
func (r *rig) performs(d *cri.Driver) {
	r.works = calls.NewWorks(calls.WorksOptions{
		Manifest: func(ctx context.Context, d string) (*corev1.Pod, error) { return r.manifest(ctx, d) },
		Log:      r.log,
	}, d)
}

func (r *rig) perform(intent string, req *journaletv1.CallRequested, inDoubt bool) *journaletv1.CallFinished {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	req.PodUid = uid
	out := r.works.Perform(ctx, intent, "pod/"+uid, req, inDoubt)
	if out == nil {
		r.t.Fatalf("intent %s: no outcome", intent)
	}
	if out.GetIntentId() != intent || out.GetRequester() != "pod/"+uid {
		r.t.Fatalf("outcome of another intent: %v", out)
	}
	return out
}

func (r *rig) done(intent string, req *journaletv1.CallRequested, inDoubt bool) *journaletv1.CallFinished {
	r.t.Helper()
	out := r.perform(intent, req, inDoubt)
	if out.GetError() != 0 {
		r.t.Fatalf("intent %s: %s: %s", intent, out.GetError(), out.GetMessage())
	}
	return out
}

func (r *rig) fails(
	intent string, req *journaletv1.CallRequested, want journaletv1.CallError, says string,
) *journaletv1.CallFinished {
	r.t.Helper()
	out := r.perform(intent, req, false)
	if out.GetError() != want || !strings.Contains(out.GetMessage(), says) {
		r.t.Fatalf("intent %s: %s %q, want %s saying %q", intent, out.GetError(), out.GetMessage(), want, says)
	}
	return out
}

func runSandbox(attempt uint32) *journaletv1.CallRequested {
	return messages.NewCall(&journaletv1.RunSandbox{Attempt: attempt, Digest: digest})
}

func setUpVolumes() *journaletv1.CallRequested {
	return messages.NewCall(&journaletv1.SetUpVolumes{Digest: digest})
}

func startContainer(sandbox string, attempt uint32) *journaletv1.CallRequested {
	return messages.NewCall(
		&journaletv1.StartContainer{Container: "main", Attempt: attempt, Digest: digest, SandboxId: sandbox,
			PodIps: []string{"10.0.0.7"}})
}

func stopContainer(id string, grace time.Duration) *journaletv1.CallRequested {
	return messages.NewCall(&journaletv1.StopContainer{ContainerId: id, Grace: durationpb.New(grace)})
}

func removeContainer(id string) *journaletv1.CallRequested {
	return messages.NewCall(&journaletv1.RemoveContainer{Container: "main", ContainerId: id})
}

func stopSandbox(id string) *journaletv1.CallRequested {
	return messages.NewCall(&journaletv1.StopSandbox{SandboxId: id})
}

func removeSandbox(id string) *journaletv1.CallRequested {
	return messages.NewCall(&journaletv1.RemoveSandbox{SandboxId: id})
}

func cleanPod(name string) *journaletv1.CallRequested {
	return messages.NewCall(&journaletv1.CleanPod{Namespace: "default", Name: name, All: true})
}

func pullImage(image string) *journaletv1.CallRequested {
	return messages.NewCall(&journaletv1.PullImage{Image: image})
}

func (r *rig) containers() []*runtimeapi.Container {
	r.t.Helper()
	resp, err := runtimeapi.NewRuntimeServiceClient(r.conn).ListContainers(context.Background(),
		&runtimeapi.ListContainersRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.GetContainers()
}

func (r *rig) sandboxes() []*runtimeapi.PodSandbox {
	r.t.Helper()
	resp, err := runtimeapi.NewRuntimeServiceClient(r.conn).ListPodSandbox(context.Background(),
		&runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.GetItems()
}

func (r *rig) sandbox() string {
	r.t.Helper()
	r.done("v", setUpVolumes(), false)
	return r.done("s", runSandbox(0), false).GetSandboxId()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestSandboxOfLostJournalBlocksCreation(t *testing.T) {
	r := newRig(t, nil)
	// The journal with this intent is lost. The next one begins with attempt 0, and its intents may have the same ids.
	r.done("lost", runSandbox(1), false)
	r.runtime.ResetCalls()
	out := r.perform("lost", runSandbox(0), false)
	if out.GetError() != journaletv1.CallError_CALL_ERROR_RUNTIME || r.runtime.Calls()["RunPodSandbox"] != 0 {
		t.Errorf("%v, after %v", out, r.runtime.Calls())
	}
}

func TestDeadSandboxOfLostJournalIsStoppedBeforeTheNext(t *testing.T) {
	r := newRig(t, nil)
	// The journal with this sandbox is lost, and the requester does not know whether it was stopped.
	r.done("t", stopSandbox(r.sandbox()), false)
	r.runtime.ResetCalls()
	r.done("next", runSandbox(1), false)
	if calls := r.runtime.Calls(); calls["StopPodSandbox"] != 1 || calls["RunPodSandbox"] != 1 {
		t.Errorf("%v, want the dead sandbox stopped", calls)
	}
}

func TestPodIsRunStoppedAndRemoved(t *testing.T) {
	r := newRig(t, nil)
	sandbox := r.sandbox()
	started := r.done("c", startContainer(sandbox, 0), false)
	all := r.containers()
	if len(all) != 1 || all[0].GetId() != started.GetContainerId() ||
		all[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("containers: %v", all)
	}
	if a := all[0].GetAnnotations(); a[cri.AnnotationIntent] != "c" || a[cri.AnnotationAgent] != "agent-1" ||
		a[cri.AnnotationHash] != "cafe" {
		t.Errorf("annotations: %v", a)
	}
	link := filepath.Join(r.dir, "links", "web_default_main-"+started.GetContainerId()+".log")
	log := filepath.Join(r.dir, "logs", "default_web_"+uid, "main", "0.log")
	if to, err := os.Readlink(link); err != nil || to != log {
		t.Errorf("link points to %q, %v; want %q", to, err, log)
	}
	hosts, err := os.ReadFile(filepath.Join(r.dir, "root/pods", uid, "etc-hosts"))
	if err != nil || !strings.Contains(string(hosts), "10.0.0.7\tweb\n") {
		t.Errorf("hosts: %q, %v", hosts, err)
	}
	r.done("x", stopContainer(started.GetContainerId(), 0), false)
	r.done("r", removeSandbox(sandbox), false)
	if len(r.containers())+len(r.sandboxes()) != 0 {
		t.Errorf("left: %v %v", r.containers(), r.sandboxes())
	}
	if exists(link) || exists(log) {
		t.Error("the log or its link is left")
	}
	// Everything again, as after a crash: it succeeds without effect.
	r.done("x", stopContainer(started.GetContainerId(), 0), true)
	r.done("r", removeSandbox(sandbox), true)
	r.done("k", cleanPod("web"), false)
	r.done("k", cleanPod("web"), true)
	for _, gone := range []string{filepath.Join("root/pods", uid), "logs/default_web_" + uid} {
		if exists(filepath.Join(r.dir, gone)) {
			t.Errorf("%s is left", gone)
		}
	}
}

func TestVolumesOfARunningContainerAreNotTornDown(t *testing.T) {
	r := newRig(t, nil)
	r.done("set up", setUpVolumes(), false)
	sandbox := r.done("run", runSandbox(0), false).GetSandboxId()
	container := r.done("start", startContainer(sandbox, 0), false).GetContainerId()
	down := messages.NewCall(&journaletv1.CleanPod{Namespace: "default", Name: "web"})
	out := r.fails("down", down, journaletv1.CallError_CALL_ERROR_VOLUME, "container main of the pod still runs")
	if !out.GetRetryable() {
		t.Error("it is not retried")
	}
	r.done("stop", stopContainer(container, 0), false)
	r.done("again", down, false)
}

func TestSandboxUsesRuntimeHandlerOfManifest(t *testing.T) {
	r := newRig(t, nil)
	r.pod.Annotations = map[string]string{manifest.RuntimeHandlerAnnotation: "runc"}
	r.sandbox()
	if s := r.sandboxes(); len(s) != 1 || s[0].GetRuntimeHandler() != "runc" {
		t.Errorf("sandboxes %v", s)
	}
	// The runtime refuses an unknown handler.
	other := newRig(t, nil)
	other.pod.Annotations = map[string]string{manifest.RuntimeHandlerAnnotation: "nowhere"}
	other.done("v", setUpVolumes(), false)
	other.fails("s", runSandbox(0), journaletv1.CallError_CALL_ERROR_RUNTIME, "nowhere")
}

func TestLostResponseFindsCreatedObject(t *testing.T) {
	for _, fault := range []sim.Fault{
		{AfterEffect: true, Hang: true, Times: 1},
		{AfterEffect: true, Err: status.Error(codes.Unavailable, "connection lost"), Times: 1},
		{AfterEffect: true, Err: status.Error(codes.DeadlineExceeded, "too slow"), Times: 1},
		{Err: status.Error(codes.Unavailable, "not sent"), Times: 2},
		{Hang: true, Times: 1},
	} {
		clock := new(deadlines)
		r := newRig(t, func(o *cri.Options) { o.Clock = clock })
		r.done("v", setUpVolumes(), false)
		for method, timeout := range map[string]time.Duration{
			"RunPodSandbox": 2 * time.Minute, "CreateContainer": time.Minute, "StartContainer": time.Minute,
		} {
			f := fault
			f.Method = method
			if f.Hang {
				f.Match = func(any) bool { clock.pass(t, timeout); return true }
			}
			r.runtime.Inject(f)
		}
		sandbox := r.done("s", runSandbox(0), false).GetSandboxId()
		if all := r.sandboxes(); len(all) != 1 || all[0].GetId() != sandbox {
			t.Fatalf("%+v: sandboxes %v", fault, all)
		}
		id := r.done("c", startContainer(sandbox, 0), false).GetContainerId()
		if all := r.containers(); len(all) != 1 || all[0].GetId() != id ||
			all[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Fatalf("%+v: containers %v", fault, all)
		}
	}
}

func TestFailedCallNamesCanceledSandbox(t *testing.T) {
	r := newRig(t, nil)
	sandbox := r.sandbox()
	r.done("t", stopSandbox(sandbox), false)
	out := r.perform("s", runSandbox(0), true)
	if out.GetError() != journaletv1.CallError_CALL_ERROR_SANDBOX_GONE || out.GetSandboxId() != sandbox ||
		!out.GetRetryable() {
		t.Errorf("outcome %v, want one that names %s as gone", out, sandbox)
	}
	if n := len(r.sandboxes()); n != 1 {
		t.Errorf("%d sandboxes", n)
	}
}

func TestIntentOfEarlierRunContinues(t *testing.T) {
	r := newRig(t, nil)
	sandbox := r.sandbox()
	if again := r.done("s", runSandbox(0), true).GetSandboxId(); again != sandbox {
		t.Fatalf("sandbox %s, then %s", sandbox, again)
	}
	// The agent dies between create and start.
	ctx, cancel := context.WithCancel(context.Background())
	r.runtime.Inject(sim.Fault{Method: "StartContainer", Hang: true, Times: 1,
		Match: func(any) bool { cancel(); return true }})
	req := startContainer(sandbox, 0)
	req.PodUid = uid
	if out := r.works.Perform(ctx, "c", "pod/"+uid, req, false); out != nil {
		t.Fatalf("an agent that stops must leave the call in doubt, got %v", out)
	}
	created := r.containers()
	if len(created) != 1 || created[0].GetState() != runtimeapi.ContainerState_CONTAINER_CREATED {
		t.Fatalf("containers: %v", created)
	}
	if id := r.done("c", startContainer(sandbox, 0), true).GetContainerId(); id != created[0].GetId() {
		t.Fatalf("container %s, want %s", id, created[0].GetId())
	}
	r.runtime.ResetCalls()
	r.done("c", startContainer(sandbox, 0), true)
	if calls := r.runtime.Calls(); calls["StartContainer"]+calls["CreateContainer"] != 0 {
		t.Errorf("a running container was started again: %v", calls)
	}
	if all := r.containers(); len(all) != 1 || all[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("containers: %v", all)
	}
}

func TestOrderlyStopDrainsStart(t *testing.T) {
	r := newRig(t, func(o *cri.Options) { o.Timeouts.Drain = time.Minute })
	sandbox := r.sandbox()
	ctx, cancel := context.WithCancel(context.Background())
	remove := r.runtime.Inject(sim.Fault{Method: "StartContainer", Hang: true,
		Match: func(any) bool { cancel(); return true }})
	outcome := make(chan *journaletv1.CallFinished, 1)
	go func() {
		req := startContainer(sandbox, 0)
		req.PodUid = uid
		outcome <- r.works.Perform(ctx, "c", "pod/"+uid, req, false)
	}()
	<-ctx.Done()
	remove()
	if out := <-outcome; out.GetContainerId() == "" || out.GetError() != 0 {
		t.Errorf("outcome %v", out)
	}
	req := startContainer(sandbox, 1)
	req.PodUid = uid
	r.runtime.ResetCalls()
	if out := r.works.Perform(ctx, "c2", "pod/"+uid, req, false); out != nil || len(r.runtime.Calls()) != 0 {
		t.Errorf("a stopped agent began a call: %v, %v", out, r.runtime.Calls())
	}
}

// A network plugin that is killed with its call leaves what it does not find again.
func TestOrderlyStopDrainsTheStopOfASandbox(t *testing.T) {
	r := newRig(t, func(o *cri.Options) { o.Timeouts.Drain = time.Minute })
	sandbox := r.sandbox()
	ctx, cancel := context.WithCancel(context.Background())
	remove := r.runtime.Inject(sim.Fault{Method: "StopPodSandbox", Hang: true,
		Match: func(any) bool { cancel(); return true }})
	outcome := make(chan *journaletv1.CallFinished, 1)
	go func() {
		req := &journaletv1.CallRequested{PodUid: uid, Work: &journaletv1.CallRequested_StopSandbox{
			StopSandbox: &journaletv1.StopSandbox{SandboxId: sandbox},
		}}
		outcome <- r.works.Perform(ctx, "c", "pod/"+uid, req, false)
	}()
	<-ctx.Done()
	remove()
	if out := <-outcome; out.GetSandboxId() != sandbox || out.GetError() != 0 {
		t.Errorf("outcome %v", out)
	}
}

// deadlines is the machine's clock, but that a deadline passes only when the test says so.
type deadlines struct {
	clock.Real
	newest deadline
}

// deadline is a context that ends by its deadline when pass is called.
type deadline struct {
	context.Context
	after time.Duration
	pass  context.CancelCauseFunc
}

func (d deadline) Err() error {
	if d.Context.Err() != nil {
		return context.Cause(d.Context)
	}
	return nil
}

func (*deadlines) Wait(ctx context.Context, d time.Duration) error {
	return clock.Wait(ctx, clock.Real{}, d)
}

func (c *deadlines) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, pass := context.WithCancelCause(ctx)
	c.newest = deadline{ctx, d, pass}
	return c.newest, func() { pass(nil) }
}

// pass lets the deadline of the call under way pass, which is so long.
func (c *deadlines) pass(t *testing.T, after time.Duration) {
	if c.newest.after != after {
		t.Errorf("the deadline is after %s, want %s", c.newest.after, after)
	}
	c.newest.pass(context.DeadlineExceeded)
}

// tap reports every failed call.
type tap struct {
	grpc.ClientConnInterface
	failed chan string
}

func (c *tap) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if err != nil {
		select {
		case c.failed <- method:
		default:
		}
	}
	return err
}

func TestCallWaitsForUnavailableRuntime(t *testing.T) {
	failed := make(chan string, 1)
	r := newRig(t, func(o *cri.Options) { o.Conn = &tap{o.Conn, failed} })
	r.runtime.Crash()
	outcome := make(chan *journaletv1.CallFinished, 1)
	go func() {
		req := runSandbox(0)
		req.PodUid = uid
		outcome <- r.works.Perform(t.Context(), "s", "pod/"+uid, req, false)
	}()
	for range 5 { // more than the attempts on a runtime that responds
		<-failed
	}
	r.runtime.Restart()
	if out := <-outcome; out.GetError() != 0 || out.GetSandboxId() == "" {
		t.Fatalf("outcome %v", out)
	}
}

func TestCallFailsAfterMaxAttempts(t *testing.T) {
	r := newRig(t, nil)
	r.runtime.Inject(sim.Fault{Method: "RunPodSandbox", Err: status.Error(codes.DeadlineExceeded, "CNI is stuck")})
	out := r.fails("s", runSandbox(0), journaletv1.CallError_CALL_ERROR_NOT_DONE, "CNI is stuck")
	if !out.GetRetryable() {
		t.Error("the failure is not retryable")
	}
	if n := r.runtime.Calls()["RunPodSandbox"]; n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
}

func TestNameReservedByOtherIntentFailsCall(t *testing.T) {
	r := newRig(t, nil)
	r.sandbox()
	out := r.fails("other", runSandbox(0), journaletv1.CallError_CALL_ERROR_RUNTIME, "has attempt 0")
	if !out.GetRetryable() || len(r.sandboxes()) != 1 {
		t.Errorf("outcome %v, sandboxes %v", out, r.sandboxes())
	}
}

// What a kubelet had created has the pod's name at the runtime. The failure says what to do, and the sandbox stays.
func TestSandboxOfAKubeletIsNamedAndStays(t *testing.T) {
	for attempt, inDoubt := range map[uint32]bool{0: false, 3: true} {
		r := newRig(t, nil)
		theirs, err := runtimeapi.NewRuntimeServiceClient(r.conn).RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{
			Config: &runtimeapi.PodSandboxConfig{
				Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: uid, Attempt: attempt},
				Labels:   map[string]string{cri.LabelPodUID: uid, cri.LabelPodName: "web", cri.LabelPodNamespace: "default"},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		r.done("v", setUpVolumes(), false)
		out := r.perform("ours", runSandbox(0), inDoubt)
		if !out.GetRetryable() || !strings.Contains(out.GetMessage(), "crictl rmp -f "+theirs.GetPodSandboxId()) ||
			len(r.sandboxes()) != 1 || r.sandboxes()[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
			t.Errorf("attempt %d: outcome %v, sandboxes %v", attempt, out, r.sandboxes())
		}
	}
}

// tenfold returns variables; each refers ten times to the variable before it.
func tenfold(n int) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "A0", Value: strings.Repeat("x", 100)}}
	for i := 1; i < n; i++ {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("A%d", i), Value: strings.Repeat(fmt.Sprintf("$(A%d)", i-1), 10)})
	}
	return env
}

func TestFailedStartsHaveKubeletReasons(t *testing.T) {
	yes, root := true, int64(0)
	for _, c := range []struct {
		name   string
		change func(*corev1.Container)
		fault  *sim.Fault
		want   journaletv1.CallError
		says   string
	}{
		{"no image", func(c *corev1.Container) { c.Image = "docker.io/library/none:1" }, nil,
			journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT, `"docker.io/library/none:1"`},
		{"no image name", func(c *corev1.Container) { c.Image = "Not An Image" }, nil,
			journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME, "couldn't parse image name"},
		{"image lookup", nil, &sim.Fault{Method: "ImageStatus", Err: status.Error(codes.Unknown, "disk broken")},
			journaletv1.CallError_CALL_ERROR_IMAGE_INSPECT, "disk broken"},
		{"root", func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: &yes, RunAsUser: &root}
		}, nil, journaletv1.CallError_CALL_ERROR_CONFIG,
			`container's runAsUser breaks non-root policy (pod: "web_default(uid-1)", container: main)`},
		{"image runs as root", func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: &yes} },
			nil,
			journaletv1.CallError_CALL_ERROR_CONFIG, "container has runAsNonRoot and image will run as root"},
		{"environment", func(c *corev1.Container) { c.Env = tenfold(12) }, nil, journaletv1.CallError_CALL_ERROR_CONFIG,
			"environment variable A4: has more than 131071 bytes"},
		{"command", func(c *corev1.Container) { c.Env, c.Args = tenfold(4), []string{"a", "$(A3)$(A3)$(A3)"} }, nil,
			journaletv1.CallError_CALL_ERROR_CONFIG, "args[1] has more than 131071 bytes"},
		{"create", nil, &sim.Fault{Method: "CreateContainer", Err: status.Error(codes.Unknown, "no space left")},
			journaletv1.CallError_CALL_ERROR_CREATE, "no space left"},
		{"start", func(c *corev1.Container) { c.Command = []string{"/missing"} }, nil, journaletv1.CallError_CALL_ERROR_START,
			"/missing: no such file"},
		{"volume", func(c *corev1.Container) { c.VolumeMounts[0].Name = "none" }, nil,
			journaletv1.CallError_CALL_ERROR_CONFIG, `cannot find volume "none" to mount into container "main"`},
		{"container", func(c *corev1.Container) { c.Name = "other" }, nil, journaletv1.CallError_CALL_ERROR_CONFIG,
			`no container "main"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil)
			sandbox := r.sandbox()
			if c.change != nil {
				c.change(&r.pod.Spec.Containers[0])
			}
			if c.fault != nil {
				r.runtime.Inject(*c.fault)
			}
			out := r.fails("c", startContainer(sandbox, 0), c.want, c.says)
			if (c.want == journaletv1.CallError_CALL_ERROR_START) != (out.GetContainerId() != "") {
				t.Errorf("container id %q", out.GetContainerId())
			}
		})
	}
}

func TestDeadSandboxRefusesContainer(t *testing.T) {
	r := newRig(t, nil)
	sandbox := r.sandbox()
	r.fails("c1", startContainer("none", 0), journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, "none is gone")
	r.done("t", stopSandbox(sandbox), false)
	r.fails("c2", startContainer(sandbox, 0), journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, "is not ready")
}

func TestRepeatedStopGetsRemainingGracePeriod(t *testing.T) {
	clock := &stepClock{now: time.Unix(1000, 0)}
	r := newRig(t, func(o *cri.Options) { o.Clock = clock })
	sandbox := r.sandbox()
	id := r.done("c", startContainer(sandbox, 0), false).GetContainerId()
	var graces []int64
	r.runtime.Inject(sim.Fault{Method: "StopContainer", Err: status.Error(codes.Unavailable, "gone"), Times: 2,
		Match: func(req any) bool {
			graces = append(graces, req.(*runtimeapi.StopContainerRequest).GetTimeout())
			clock.now = clock.now.Add(4 * time.Second)
			return true
		}})
	r.done("x", stopContainer(id, 5*time.Second), false)
	if !slices.Equal(graces[:2], []int64{5, 1}) {
		t.Errorf("graces %v", graces)
	}
}

// stepClock's timers fire at once; the test sets its time.
type stepClock struct{ now time.Time }

func (c *stepClock) Now() time.Time { return c.now }
func (c *stepClock) AfterFunc(_ time.Duration, f func()) func() bool {
	go f()
	return func() bool { return false }
}

func TestPullReturnsImage(t *testing.T) {
	r := newRig(t, nil)
	out := r.done("p", pullImage("example.com/a/b:1"), false)
	if out.GetImageRef() == "" || out.GetImageBytes() == 0 {
		t.Errorf("outcome %v", out)
	}
	r.runtime.Inject(sim.Fault{Method: "PullImage", Err: status.Error(codes.Unavailable, "going down"), Times: 1})
	r.done("p2", pullImage("example.com/a/b:2"), false)
	r.runtime.Inject(sim.Fault{Method: "PullImage", Err: status.Error(codes.Unknown, "RegistryUnavailable: no route"),
		Times: 1})
	r.fails("p3", pullImage("example.com/a/b:3"), journaletv1.CallError_CALL_ERROR_REGISTRY_UNAVAILABLE, "no route")
	r.runtime.Inject(sim.Fault{Method: "PullImage", Err: status.Error(codes.Unknown, "SignatureValidationFailed: forged"),
		Times: 1})
	r.fails("p4", pullImage("example.com/a/b:4"), journaletv1.CallError_CALL_ERROR_SIGNATURE_VALIDATION, "forged")
	r.fails("p5", pullImage("UPPER case"), journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME, "couldn't parse")
	r.runtime.Inject(sim.Fault{Method: "PullImage", Err: status.Error(codes.Canceled, "no progress"), Times: 1})
	r.fails("p6", pullImage("example.com/a/b:6"), journaletv1.CallError_CALL_ERROR_RUNTIME, "no progress")
}

func TestPullReportsProgressAndEndsWhenStalled(t *testing.T) {
	var reports []*journaletv1.PullProgressed
	r := newRig(t, func(o *cri.Options) {
		o.Timeouts.PullReport, o.Timeouts.PullStall = 5*time.Millisecond, 40*time.Millisecond
		o.Pulls.Progress = func(p *journaletv1.PullProgressed) { reports = append(reports, p) }
	})
	r.runtime.Inject(sim.Fault{Method: "PullImage", Hang: true})
	r.fails("p", pullImage("example.com/slow:1"), journaletv1.CallError_CALL_ERROR_RUNTIME, "no progress")
	if len(reports) == 0 || reports[0].GetImage() != "example.com/slow:1" || reports[0].GetElapsed().AsDuration() <= 0 {
		t.Errorf("reports %v", reports)
	}
}

func TestManifestOfAnotherPodIsRefused(t *testing.T) {
	r := newRig(t, nil)
	r.pod.UID = "uid-2"
	r.fails("s", runSandbox(0), journaletv1.CallError_CALL_ERROR_CONFIG, "is of pod uid-2")
	r.fails("g", &journaletv1.CallRequested{}, journaletv1.CallError_CALL_ERROR_INVALID_RESPONSE, "does not know")
}

// The message of a failure also goes to the log, which has no bound of its own.
func TestMessageOfAFailedCallIsBounded(t *testing.T) {
	const most = 4 << 10 // bytes
	r := newRig(t, nil)
	r.pod.Spec.Containers[0].Command = []string{"/talkative"}
	out := r.perform("c", startContainer(r.sandbox(), 0), false)
	if n := len(out.GetMessage()); n == 0 || n > most || strings.Contains(out.GetMessage(), "\x1b") {
		t.Errorf("a message of %d bytes: %.60q", n, out.GetMessage())
	}
}
