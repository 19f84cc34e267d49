package criproxy

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
)

// runtime implements some calls and one stream.
type runtime struct {
	cri.UnimplementedRuntimeServiceServer
}

func (runtime) RunPodSandbox(context.Context, *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	return &cri.RunPodSandboxResponse{PodSandboxId: "box"}, nil
}

func (runtime) CreateContainer(context.Context, *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	return &cri.CreateContainerResponse{ContainerId: "c1"}, nil
}

func (runtime) StartContainer(context.Context, *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	return nil, status.Error(codes.NotFound, "no such container")
}

func (runtime) ExecSync(context.Context, *cri.ExecSyncRequest) (*cri.ExecSyncResponse, error) {
	return &cri.ExecSyncResponse{ExitCode: 7}, nil
}

func (runtime) GetContainerEvents(_ *cri.GetEventsRequest,
	s grpc.ServerStreamingServer[cri.ContainerEventResponse]) error {
	for _, id := range []string{"a", "b"} {
		if err := s.Send(&cri.ContainerEventResponse{ContainerId: id}); err != nil {
			return err
		}
	}
	<-s.Context().Done()
	return s.Context().Err()
}

// between starts a runtime and a proxy before it, and returns the proxy and a client of it.
func between(t *testing.T) (*Proxy, cri.RuntimeServiceClient) {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "r"))
	must.OK(t, err)
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, runtime{})
	go func() { _ = server.Serve(l) }() // ends with the test
	t.Cleanup(server.Stop)
	p, err := Listen(filepath.Join(dir, "p"), "unix://"+filepath.Join(dir, "r"))
	must.OK(t, err)
	t.Cleanup(func() { p.Close() })
	socket := "unix://" + filepath.Join(dir, "p")
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return p, cri.NewRuntimeServiceClient(conn)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestCallsPassUnchangedAndAreRecordedWithTheirPod(t *testing.T) {
	p, rt := between(t)
	ctx := within(t)
	cfg := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: "web"}}
	box, err := rt.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: cfg})
	if err != nil || box.GetPodSandboxId() != "box" {
		t.Fatalf("%v, %v", box, err)
	}
	c, err := rt.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: "box", SandboxConfig: cfg})
	if err != nil || c.GetContainerId() != "c1" {
		t.Fatalf("%v, %v", c, err)
	}
	if _, err := rt.StartContainer(ctx,
		&cri.StartContainerRequest{ContainerId: "c1"}); status.Code(err) != codes.NotFound {
		t.Fatalf("the runtime's error became %v", err)
	}
	// A response reaches the client before its call is recorded.
	var calls []Call
	for deadline := time.Now().Add(10 * time.Second); len(calls) < 3; {
		if calls = append(calls, p.Take()...); time.Now().After(deadline) {
			t.Fatalf("recorded %+v", calls)
		}
	}
	if last := p.LastCreate(); last.GetPodSandboxId() != "box" {
		t.Errorf("the last CreateContainer request is %v", last)
	}
	for i, want := range []Call{
		{Method: "RunPodSandbox"}, {Method: "CreateContainer"}, {Method: "StartContainer", Failed: true},
	} {
		got := calls[i]
		if got.Method != want.Method || got.Pod != "web" || got.Failed != want.Failed || !got.End.After(got.Begin) {
			t.Errorf("call %d is recorded as %+v", i, got)
		}
	}
}

func TestStreamPassesMessageByMessageAndTakesEvents(t *testing.T) {
	p, rt := between(t)
	events, err := rt.GetContainerEvents(within(t), &cri.GetEventsRequest{})
	must.OK(t, err)
	for _, want := range []string{"a", "b", "c"} {
		if want == "c" {
			must.OK(t, p.Send(&cri.ContainerEventResponse{ContainerId: "c"}))
		}
		if e, err := events.Recv(); err != nil || e.GetContainerId() != want {
			t.Fatalf("%v, %v", e, err)
		}
	}
}

func TestProxyServesCommandsOnlyInContainersCreatedThroughIt(t *testing.T) {
	p, rt := between(t)
	ctx := within(t)
	code := func(id string) int32 {
		r, err := rt.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: id})
		must.OK(t, err)
		return r.GetExitCode()
	}
	cfg := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: "web"}}
	create := &cri.CreateContainerRequest{PodSandboxId: "box", SandboxConfig: cfg}
	if _, err := rt.CreateContainer(ctx, create); err != nil {
		t.Fatal(err)
	}
	if got := code("c1"); got != 7 {
		t.Errorf("by default a command ends with %d, want the runtime's 7", got)
	}
	noted := map[string]int{}
	p.ServeExec(func(pod string, at time.Time) {
		if !at.IsZero() {
			noted[pod]++
		}
	})
	// A response reaches the client before the proxy knows its container.
	for code("c1") != 0 {
		if ctx.Err() != nil {
			t.Fatal("the call still reaches the runtime")
		}
	}
	if got := code("other"); got != 7 {
		t.Errorf("in another container a command ends with %d, want the runtime's 7", got)
	}
	start := &cri.StartContainerRequest{ContainerId: "c1"}
	if _, err := rt.StartContainer(ctx, start); status.Code(err) != codes.NotFound {
		t.Errorf("another call returns %v, want the runtime's error", err)
	}
	if len(noted) != 1 || noted["web"] != 1 {
		t.Errorf("noted %v", noted)
	}
}

func TestCallIsHeldBeforeTheRuntimeUntilItIsReleased(t *testing.T) {
	p, rt := between(t)
	free, held := make(chan struct{}), make(chan string, 1)
	p.Hold(func(method string, request []byte) <-chan struct{} {
		if !bytes.Contains(request, []byte("web")) {
			return nil
		}
		held <- method
		return free
	})
	if _, err := rt.ExecSync(within(t), &cri.ExecSyncRequest{ContainerId: "other"}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := rt.RunPodSandbox(within(t), &cri.RunPodSandboxRequest{Config: &cri.PodSandboxConfig{Hostname: "web"}})
		ended <- err
	}()
	if method := <-held; method != cri.RuntimeService_RunPodSandbox_FullMethodName {
		t.Errorf("held %s", method)
	}
	select {
	case err := <-ended:
		t.Fatalf("a held call ended: %v", err)
	default:
	}
	close(free)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
