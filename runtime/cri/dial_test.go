package cri_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/test/must"
)

// executor is a runtime whose commands all have the same answer.
type executor struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	exec func(context.Context) (*runtimeapi.ExecSyncResponse, error)
}

func (e *executor) ExecSync(ctx context.Context, _ *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	return e.exec(ctx)
}

// encoded is a codec that encodes each message as the same bytes, without a copy.
type encoded struct {
	encoding.CodecV2
	message []byte
}

func (e encoded) Marshal(any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(e.message)}, nil
}

// counting is a pool that counts the bytes in use.
type counting struct {
	mem.BufferPool
	now, most atomic.Int64
}

func (c *counting) Get(n int) *[]byte {
	now := c.now.Add(int64(n))
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	b := make([]byte, n)
	return &b
}

func (c *counting) Put(b *[]byte) { c.now.Add(-int64(len(*b))) }

// executing returns a client of a runtime that executes commands, and the pool of its connection.
func executing(t *testing.T, e *executor, opts ...grpc.ServerOption) (runtimeapi.RuntimeServiceClient, *counting) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must.OK(t, err)
	s := grpc.NewServer(opts...)
	runtimeapi.RegisterRuntimeServiceServer(s, e)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	pool := &counting{}
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), append(cri.DialOptions(), experimental.WithBufferPool(pool),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	must.OK(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		must.OK(t, <-served)
	})
	return runtimeapi.NewRuntimeServiceClient(conn), pool
}

func TestOutputsOfManyCommandsAtOnceTakeLittleMemory(t *testing.T) {
	const calls, size = 40, 8 << 20
	proto := encoding.GetCodecV2("proto")
	answer, err := proto.Marshal(&runtimeapi.ExecSyncResponse{
		Stdout: bytes.Repeat([]byte("o"), size/2), Stderr: bytes.Repeat([]byte("e"), size/2), ExitCode: -3,
	})
	must.OK(t, err)
	var together sync.WaitGroup // all commands end at once
	together.Add(calls)
	e := &executor{exec: func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		together.Done()
		together.Wait()
		return &runtimeapi.ExecSyncResponse{}, nil
	}}
	client, pool := executing(t, e, grpc.ForceServerCodecV2(encoded{proto, answer.Materialize()}))
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			resp, err := client.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: "c"})
			out, errs := string(resp.GetStdout()), string(resp.GetStderr())
			if err != nil || resp.GetExitCode() != -3 || out != strings.Repeat("o", cri.MaxExecOutputBytes) ||
				errs != strings.Repeat("e", cri.MaxExecOutputBytes) {
				t.Errorf("exit code %d, %d and %d bytes, %v", resp.GetExitCode(), len(out), len(errs), err)
			}
		})
	}
	all.Wait()
	// Four answers, the windows of the other calls, and the buffers of the transport.
	if most := pool.most.Load(); most < size || most > 5*size+calls*(64<<10)+(1<<20) {
		t.Errorf("%d MiB in use at once", most>>20)
	}
}

func TestCommandsOutcomesAreThoseOfTheRuntime(t *testing.T) {
	e := &executor{}
	client, _ := executing(t, e)
	call := func(ctx context.Context) (*runtimeapi.ExecSyncResponse, error) {
		return client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: "c"})
	}
	e.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		return &runtimeapi.ExecSyncResponse{Stdout: []byte("a"), ExitCode: 137}, nil
	}
	if resp, err := call(t.Context()); err != nil || string(resp.GetStdout()) != "a" || resp.GetExitCode() != 137 {
		t.Errorf("%v, %v", resp, err)
	}
	e.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	if resp, err := call(t.Context()); err != nil || resp.GetExitCode() != 0 {
		t.Errorf("an empty answer: %v, %v", resp, err)
	}
	e.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		return nil, status.Error(codes.DeadlineExceeded, "timeout 1s exceeded")
	}
	_, err := call(t.Context())
	if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "timeout 1s") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e.exec = func(ctx context.Context) (*runtimeapi.ExecSyncResponse, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := call(ctx); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	e.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
		return &runtimeapi.ExecSyncResponse{Stdout: make([]byte, 17<<20)}, nil
	}
	if _, err := call(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an answer beyond the kubelet's limit: %v", err)
	}
}
