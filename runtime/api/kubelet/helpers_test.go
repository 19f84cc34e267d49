package kubelet

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	utilexec "k8s.io/utils/exec"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/local"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/test/must"
)

// node is a node with one pod whose runtime streams by cri-streaming.
type node struct {
	t      *testing.T
	rt     *fakeRuntime
	opts   Options
	client *local.Client
	record *recorder
	// tcp is a second door: the WebSocket clients of client-go connect to nothing else.
	tcp *httptest.Server
}

const podUID = "uid-1"

func newNode(t *testing.T, change func(*Options)) *node {
	t.Helper()
	n := &node{t: t, rt: newFakeRuntime(t), record: &recorder{}}
	n.opts = Options{Pods: fakePods{webPod()}, Runtime: n.rt, Sessions: n.record, Owner: cri.Owner{AgentID: "agent"}}
	if change != nil {
		change(&n.opts)
	}
	h := New(n.opts)
	path := filepath.Join(t.TempDir(), local.SocketFile)
	l, err := local.Listen(path, "")
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	identified := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := local.PeerOf(r.Context()); ok {
			r = r.WithContext(WithClient(r.Context(), p))
		}
		h.ServeHTTP(w, r)
	})
	go func() { done <- local.Serve(ctx, l, identified, slog.New(slog.DiscardHandler)) }()
	n.tcp = httptest.NewServer(identified)
	n.client = local.Dial(path)
	t.Cleanup(func() {
		n.client.HTTP.CloseIdleConnections()
		cancel()
		must.OK(t, <-done)
		n.tcp.Close()
		n.rt.close()
		noneLeft(t)
		n.record.balanced(t)
		if len(h.limits.used) != 0 {
			t.Errorf("sessions are left: %v", h.limits.used)
		}
	})
	return n
}

// ours are parts of the stacks of goroutines that serve a session. What clients and the streaming server of this test
// leave for a while is theirs.
var ours = []string{
	"kubelet.(*session).", "kubelet.(*Server).", "kubelet.(*taken).", "kubelet.readSizes", "util/proxy.", "wsstream.",
	"runtime/api/local.",
}

// noneLeft waits until no goroutine serves a session.
func noneLeft(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 4<<20)
	must.Eventually(t, 3*time.Minute, "goroutines are left", func() (string, bool) {
		all := strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n")
		left := slices.DeleteFunc(all, func(s string) bool {
			return strings.Contains(s, "noneLeft") ||
				!slices.ContainsFunc(ours, func(part string) bool { return strings.Contains(s, part) })
		})
		return fmt.Sprintf("%d\n%s", len(left), strings.Join(left, "\n\n")), len(left) == 0
	})
}

func (n *node) do(method, path string) (int, string) {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), method, local.BaseURL+path, http.NoBody)
	must.OK(n.t, err)
	resp, err := n.client.HTTP.Do(req)
	must.OK(n.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must.OK(n.t, err)
	return resp.StatusCode, string(b)
}

func webPod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: podUID}}
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}, {Name: "shell", TTY: true, Stdin: true}}
	p.Status.Phase = corev1.PodRunning
	return p
}

type fakePods []*corev1.Pod

func (f fakePods) Pods(context.Context) (iter.Seq[*corev1.Pod], error) { return slices.Values(f), nil }

func (f fakePods) Pod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	for _, p := range f {
		if p.Namespace == namespace && p.Name == name {
			return p, nil
		}
	}
	return nil, nil
}

// recorder keeps what was recorded of sessions.
type recorder struct {
	mu      sync.Mutex
	started []*journaletv1.SessionStarted
	ended   []*journaletv1.SessionEnded
}

func (r *recorder) Started(_ context.Context, e *journaletv1.SessionStarted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, e)
}

func (r *recorder) Ended(e *journaletv1.SessionEnded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, e)
}

func (r *recorder) balanced(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.started) != len(r.ended) {
		t.Errorf("%d sessions started and %d ended", len(r.started), len(r.ended))
	}
}

// last waits for the end of session number i, from 0.
func (r *recorder) last(t *testing.T, i int) (*journaletv1.SessionStarted, *journaletv1.SessionEnded) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; <-time.After(time.Millisecond) {
		r.mu.Lock()
		if len(r.ended) > i {
			defer r.mu.Unlock()
			return r.started[i], r.ended[i]
		}
		r.mu.Unlock()
		if time.Now().After(end) {
			t.Fatalf("session %d has not ended", i)
		}
	}
}

// fakeRuntime is a CRI runtime that streams. Its commands: "cat" echoes, "id" prints the container's id, "exit N"
// exits, "size" prints the terminal's size, "flood" writes without end, "hang" neither reads nor writes.
type fakeRuntime struct {
	server  streaming.Server
	http    *httptest.Server
	release chan struct{} // closed at the end: hanging commands end
	begun   atomic.Int64  // commands

	mu   sync.Mutex
	open []net.Conn
}

func newFakeRuntime(t *testing.T) *fakeRuntime {
	t.Helper()
	f := &fakeRuntime{release: make(chan struct{})}
	f.http = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.server.ServeHTTP(w, r)
	}))
	f.http.Listener = keepingListener{f.http.Listener, f}
	f.http.Start()
	base, err := url.Parse(f.http.URL)
	must.OK(t, err)
	config := streaming.DefaultConfig
	config.BaseURL = base
	f.server, err = streaming.NewServer(config, commands{f})
	must.OK(t, err)
	return f
}

func (f *fakeRuntime) close() {
	close(f.release)
	f.http.CloseClientConnections()
	f.http.Close()
}

// idle waits until every connection to the runtime is closed from our side. The runtime need not have noticed: it does
// not read while a command takes no input.
func (f *fakeRuntime) idle(t *testing.T) {
	t.Helper()
	waitFor(t, "runtime without connections", func() bool { return f.connections() == 0 })
}

// connections returns how many connections are open.
func (f *fakeRuntime) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = slices.DeleteFunc(f.open, func(c net.Conn) bool { return gone(rawConn(c)) })
	return len(f.open)
}

type keepingListener struct {
	net.Listener
	f *fakeRuntime
}

func (l keepingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.f.mu.Lock()
		defer l.f.mu.Unlock()
		l.f.open = append(l.f.open, c)
	}
	return c, err
}

func (f *fakeRuntime) Exec(_ context.Context, r *runtimeapi.ExecRequest, _ ...grpc.CallOption) (
	*runtimeapi.ExecResponse, error) {
	return f.server.GetExec(r)
}

func (f *fakeRuntime) Attach(_ context.Context, r *runtimeapi.AttachRequest, _ ...grpc.CallOption) (
	*runtimeapi.AttachResponse, error) {
	return f.server.GetAttach(r)
}

func (f *fakeRuntime) PortForward(_ context.Context, r *runtimeapi.PortForwardRequest, _ ...grpc.CallOption) (
	*runtimeapi.PortForwardResponse, error) {
	return f.server.GetPortForward(r)
}

func (f *fakeRuntime) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest, _ ...grpc.CallOption) (
	*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{
		Id: "sandbox", Annotations: map[string]string{cri.AnnotationAgent: "agent"},
		Metadata: &runtimeapi.PodSandboxMetadata{Namespace: "default", Name: "web", Uid: podUID},
	}}}, nil
}

// ListContainers shows the two containers of the pod, and two containers of another agent with the same labels.
func (f *fakeRuntime) ListContainers(
	_ context.Context, r *runtimeapi.ListContainersRequest, _ ...grpc.CallOption,
) (*runtimeapi.ListContainersResponse, error) {
	var out []*runtimeapi.Container
	for _, agent := range []string{"agent", "another"} {
		for _, name := range []string{"main", "shell"} {
			want := r.GetFilter().GetLabelSelector()
			if len(want) > 0 && (want[cri.LabelPodUID] != podUID || want[cri.LabelContainerName] != name) {
				continue
			}
			out = append(out, &runtimeapi.Container{
				Id: agent + "/" + name, PodSandboxId: "sandbox", CreatedAt: int64(len(agent)),
				Metadata:    &runtimeapi.ContainerMetadata{Name: name},
				Image:       &runtimeapi.ImageSpec{Image: "web:1"},
				Annotations: map[string]string{cri.AnnotationAgent: agent},
			})
		}
	}
	return &runtimeapi.ListContainersResponse{Containers: out}, nil
}

// commands run what sessions run.
type commands struct{ *fakeRuntime }

func (c commands) Exec(_ context.Context, id string, cmd []string, in io.Reader, out, _ io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize) error {
	c.begun.Add(1)
	switch cmd[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "id":
		_, err := fmt.Fprintf(out, "%s tty=%v", id, tty)
		return err
	case "exit":
		code, err := strconv.Atoi(cmd[1])
		if err != nil {
			return err
		}
		return utilexec.CodeExitError{Err: fmt.Errorf("exit %d", code), Code: code}
	case "size":
		size := <-resize
		_, err := fmt.Fprintf(out, "%dx%d", size.Width, size.Height)
		return err
	case "flood":
		line := []byte(strings.Repeat("x", 32<<10))
		for {
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
	}
	<-c.release
	return nil
}

func (c commands) Attach(ctx context.Context, id string, in io.Reader, out, err io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize) error {
	return c.Exec(ctx, id, []string{"id"}, in, out, err, tty, resize)
}

// PortForward connects to an echo server on each port but 9.
func (c commands) PortForward(_ context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	if port == 9 {
		return fmt.Errorf("connection refused in %s", id)
	}
	_, err := io.Copy(stream, stream)
	return err
}

type portforwardDialer = httpstream.Dialer

func itoa(n uint16) string { return strconv.Itoa(int(n)) }

// waitFor waits for a condition.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	must.Until(t, 3*time.Minute, what, is)
}

// endless is input without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// stall is output that nobody reads until it is closed.
type stall chan struct{}

func (s stall) Write(p []byte) (int, error) { <-s; return len(p), nil }

// silent is a runtime whose streams never answer.
type silent struct {
	*fakeRuntime
	url string
}

func (s silent) Exec(context.Context, *runtimeapi.ExecRequest, ...grpc.CallOption) (*runtimeapi.ExecResponse, error) {
	return &runtimeapi.ExecResponse{Url: s.url}, nil
}

func (f *fakeRuntime) ExecSync(_ context.Context, r *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption) (
	*runtimeapi.ExecSyncResponse, error) {
	if r.GetCmd()[0] == "false" {
		return &runtimeapi.ExecSyncResponse{ExitCode: 1, Stderr: []byte("no")}, nil
	}
	return &runtimeapi.ExecSyncResponse{Stdout: []byte(r.GetContainerId() + " " + strings.Join(r.GetCmd(), "|"))}, nil
}

func (f *fakeRuntime) CheckpointContainer(_ context.Context, r *runtimeapi.CheckpointContainerRequest,
	_ ...grpc.CallOption) (*runtimeapi.CheckpointContainerResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "no checkpoint of %s in %d s", r.GetContainerId(), r.GetTimeout())
}
