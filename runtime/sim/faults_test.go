package sim

import (
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

func TestErrorStrikesTheGivenNumberOfTimes(t *testing.T) {
	g := newRig(t, Options{})
	g.Inject(Fault{Method: "Version", Err: status.Error(codes.Internal, "boom"), Times: 2})
	for _, want := range []codes.Code{codes.Internal, codes.Internal, codes.OK} {
		_, err := g.cri.Version(g.ctx, &cri.VersionRequest{})
		wantCode(t, err, want)
	}
	if n := g.Calls()["Version"]; n != 3 {
		t.Errorf("%d calls counted, want 3", n)
	}
	g.ResetCalls()
	if n := len(g.Calls()); n != 0 {
		t.Errorf("%d counters left after ResetCalls", n)
	}
}

func TestFaultMatchesByRequest(t *testing.T) {
	g := newRig(t, Options{})
	remove := g.Inject(Fault{
		Match: func(req any) bool {
			r, ok := req.(*cri.RunPodSandboxRequest)
			return ok && r.GetConfig().GetMetadata().GetName() == "unlucky"
		},
		Err: status.Error(codes.Unavailable, "no network"),
	})
	g.pod(t, "lucky")
	_, err := g.cri.RunPodSandbox(g.ctx, &cri.RunPodSandboxRequest{Config: podConfig("unlucky")})
	wantCode(t, err, codes.Unavailable)
	remove()
	g.pod(t, "unlucky")
}

func TestErrorAfterTheEffectLeavesItInDoubt(t *testing.T) {
	g := newRig(t, Options{})
	late := status.Error(codes.DeadlineExceeded, "too late")
	g.Inject(Fault{Method: "RunPodSandbox", Err: late, AfterEffect: true, Times: 1})
	req := &cri.RunPodSandboxRequest{Config: podConfig("a")}
	_, err := g.cri.RunPodSandbox(g.ctx, req)
	wantCode(t, err, codes.DeadlineExceeded)
	_, err = g.cri.RunPodSandbox(g.ctx, req)
	wantCode(t, err, codes.FailedPrecondition) // it exists: the twin is refused
	list, err := g.cri.ListPodSandbox(g.ctx, &cri.ListPodSandboxRequest{})
	if err != nil || len(list.GetItems()) != 1 {
		t.Fatalf("list: %v, %v", list, err)
	}
}

func TestHangHoldsUntilItIsRemovedOrTheCallerGivesUp(t *testing.T) {
	g := newRig(t, Options{})
	id := g.running(t, "a", "sleep", "1000")
	held := make(chan struct{}, 2)
	match := func(any) bool { held <- struct{}{}; return true }
	remove := g.Inject(Fault{Method: "StopContainer", Hang: true, Match: match})

	ctx, cancel := context.WithCancel(g.ctx)
	done := make(chan error, 1)
	stop := func(ctx context.Context) {
		_, err := g.cri.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id})
		done <- err
	}
	go stop(ctx)
	<-held
	cancel()
	wantCode(t, <-done, codes.Canceled)
	if st := g.status(t, id); st.GetState() != cri.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("a call that was given up had its effect: %s", st.GetState())
	}

	go stop(g.ctx)
	<-held
	remove()
	wantCode(t, <-done, codes.OK)
	wantExit(t, g.status(t, id), 137, "Error")
}

func TestCrashEndsCallsAndKeepsContainers(t *testing.T) {
	g := newRig(t, Options{})
	id := g.running(t, "a", "sleep", "60")
	stream, err := g.cri.GetContainerEvents(g.ctx, &cri.GetEventsRequest{})
	must.OK(t, err)
	if _, err := stream.Recv(); err != nil { // what was held before, so the stream stands
		t.Fatal(err)
	}
	held := make(chan struct{}, 1)
	g.Inject(Fault{Method: "StopContainer", Hang: true, Match: func(any) bool { held <- struct{}{}; return true }})
	done := make(chan error, 1)
	go func() {
		_, err := g.cri.StopContainer(g.ctx, &cri.StopContainerRequest{ContainerId: id})
		done <- err
	}()
	<-held
	g.Crash()
	wantCode(t, <-done, codes.Unavailable)
	for err = nil; err == nil; {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.Unavailable)
	_, err = g.cri.Version(g.ctx, &cri.VersionRequest{})
	wantCode(t, err, codes.Unavailable)

	g.clock.Advance(time.Minute) // the container ends while the API is down
	g.Restart()
	st, err := g.cri.ContainerStatus(g.ctx, &cri.ContainerStatusRequest{ContainerId: id}, grpc.WaitForReady(true))
	must.OK(t, err)
	wantExit(t, st.GetStatus(), 0, "Completed")
}

func TestSocketServesAgainAfterRestart(t *testing.T) {
	g := newRig(t, Options{})
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	must.OK(t, err)
	ctx, cancel := context.WithCancel(g.ctx)
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, l) }()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.OK(t, err)
	defer func() { _ = conn.Close() }()
	client := cri.NewRuntimeServiceClient(conn)
	for range 2 {
		// The first try may still go out on the connection that has just died.
		for {
			_, err := client.Version(g.ctx, &cri.VersionRequest{}, grpc.WaitForReady(true))
			if err == nil {
				break
			}
			wantCode(t, err, codes.Unavailable)
		}
		g.Restart()
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestClosedRuntimeRefuses(t *testing.T) {
	r := New(Options{})
	r.Close()
	if _, err := r.Dial(); err == nil {
		t.Error("Dial worked after Close")
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must.OK(t, err)
	if err := r.Serve(context.Background(), l); err == nil {
		t.Error("Serve worked after Close")
	}
}
