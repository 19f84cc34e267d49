package clients

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/must"
)

// wait bounds what a test waits for.
const wait = 5 * time.Minute

const (
	getMethod   = "/test.Large/Get"
	watchMethod = "/test.Large/Watch"
)

// served is a server of an API whose answers have size bytes. A watch has one, and one more for each change.
type served struct {
	*Server
	t       *testing.T
	socket  string
	gets    atomic.Int64
	changes chan struct{}
}

func serve(t *testing.T, size int) *served {
	t.Helper()
	s := &served{t: t, socket: filepath.Join(t.TempDir(), "dir", "s.sock"), changes: make(chan struct{})}
	get := func(_ any, ctx context.Context, decode func(any) error, bound grpc.UnaryServerInterceptor) (any, error) {
		in := &emptypb.Empty{}
		if err := decode(in); err != nil {
			return nil, err
		}
		return bound(ctx, in, &grpc.UnaryServerInfo{FullMethod: getMethod}, func(context.Context, any) (any, error) {
			return wrapperspb.Bytes(make([]byte, size)), nil
		})
	}
	watch := func(_ any, stream grpc.ServerStream) error {
		for {
			if err := stream.SendMsg(wrapperspb.Bytes(make([]byte, size))); err != nil {
				return err
			}
			select {
			case <-s.changes:
			case <-stream.Context().Done():
				return stream.Context().Err()
			}
		}
	}
	s.Server = New(func(string, error) { s.gets.Add(1) }, func(r grpc.ServiceRegistrar) {
		r.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Large", HandlerType: (*any)(nil),
			Methods: []grpc.MethodDesc{{MethodName: "Get", Handler: get}},
			Streams: []grpc.StreamDesc{{StreamName: "Watch", Handler: watch, ServerStreams: true}}}, nil)
	})
	s.Limit.SetLimit(rate.Inf)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = s.Run(ctx, s.socket) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return s
}

func (s *served) client() *grpc.ClientConn {
	s.t.Helper()
	c, err := plugins.NewConn(s.socket, 64<<20)
	must.OK(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	return c
}

func (s *served) get(c *grpc.ClientConn, headers ...string) error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(s.t.Context(), headers...), wait)
	defer cancel()
	return c.Invoke(ctx, getMethod, &emptypb.Empty{}, &wrapperspb.BytesValue{}, grpc.WaitForReady(true))
}

// begin sends a request, and reads nothing of its answers.
func (s *served) begin(c *grpc.ClientConn, method string) grpc.ClientStream {
	s.t.Helper()
	stream, err := c.NewStream(s.t.Context(), &grpc.StreamDesc{ServerStreams: true}, method, grpc.WaitForReady(true))
	must.OK(s.t, err)
	must.OK(s.t, stream.SendMsg(&emptypb.Empty{}))
	must.OK(s.t, stream.CloseSend())
	return stream
}

func eventually(t *testing.T, what string, cond func() (string, bool)) {
	t.Helper()
	must.Eventually(t, wait, what, cond)
}

func TestHeadersAreBounded(t *testing.T) {
	s := serve(t, 1)
	c := s.client()
	must.OK(t, s.get(c, "x", "small"))
	if err := s.get(c, "x", strings.Repeat("x", 2*maxHeaderBytes)); err == nil {
		t.Error("a request with headers beyond the bound is answered")
	}
	must.OK(t, s.get(s.client()))
}

func TestRequestsAreLimitedByRate(t *testing.T) {
	s := serve(t, 1)
	c := s.client()
	must.OK(t, s.get(c))
	s.Limit.SetLimit(rate.Limit(1e-9))
	for range maxBurst {
		_ = s.get(c)
	}
	if err := s.get(c); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "rate limit") {
		t.Errorf("%v, want a refusal", err)
	}
}

// Many connections without a request, or with garbage, take no place from a client with one.
func TestConnectionsWithoutRequestsKeepNobodyOut(t *testing.T) {
	s := serve(t, 1)
	w := s.begin(s.client(), watchMethod)
	must.OK(t, w.RecvMsg(&wrapperspb.BytesValue{}))
	for i := range 1000 {
		c, err := net.Dial("unix", s.socket)
		must.OK(t, err)
		t.Cleanup(func() { c.Close() })
		if i%2 == 0 {
			_, _ = c.Write([]byte(strings.Repeat("garbage", 1+i%100)))
		}
	}
	must.OK(t, s.get(s.client()))
	s.changes <- struct{}{}
	must.OK(t, w.RecvMsg(&wrapperspb.BytesValue{}))
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	if len(s.conns.open) > MaxConnections {
		t.Errorf("%d connections are open", len(s.conns.open))
	}
}

// What has a request under way is not closed for a connection that is new.
func TestConnectionWithARequestKeepsItsPlace(t *testing.T) {
	s := newConns()
	var busy []*Conn
	for range MaxConnections - 1 {
		c := s.add(&net.UnixConn{})
		s.use(c)
		busy = append(busy, c)
	}
	idle := s.add(&net.UnixConn{})
	late := s.add(&net.UnixConn{})
	if late == nil || len(s.open) > MaxConnections {
		t.Fatalf("%d connections, the last one %v", len(s.open), late)
	}
	if _, open := s.open[idle]; open {
		t.Error("the idle connection has kept its place")
	}
	s.use(late)
	if s.add(&net.UnixConn{}) != nil {
		t.Error("a connection is served although all others have requests")
	}
	for _, c := range busy {
		if _, open := s.open[c]; !open {
			t.Fatal("a connection with a request was closed")
		}
	}
}

func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	const size = 4 << 20
	s := serve(t, size)
	must.OK(t, s.get(s.client()))
	u := &s.conns.unread
	for i := range 2 * maxUnreadBytes / size {
		s.begin(s.client(), getMethod)
		eventually(t, "answer", func() (string, bool) { return fmt.Sprint(s.gets.Load()), s.gets.Load() == int64(i+2) })
	}
	eventually(t, "bound of unread answers", func() (string, bool) {
		u.mu.Lock()
		defer u.mu.Unlock()
		return fmt.Sprintf("%d bytes of %d answers", u.bytes, len(u.all)),
			u.bytes <= maxUnreadBytes && u.bytes > maxUnreadBytes/2
	})
	must.OK(t, s.get(s.client()))
	s.conns.mu.Lock()
	open := slices.Collect(func(yield func(*Conn) bool) {
		for c := range s.conns.open {
			if !yield(c) {
				return
			}
		}
	})
	s.conns.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bytes != 0 || len(u.all) != 0 {
		t.Errorf("%d bytes of %d answers are held of connections that are closed", u.bytes, len(u.all))
	}
}

func TestReadAnswersAreNotHeld(t *testing.T) {
	s := serve(t, 1<<20)
	c := s.client()
	must.OK(t, s.get(c))
	must.OK(t, s.begin(c, watchMethod).RecvMsg(&wrapperspb.BytesValue{}))
	u := &s.conns.unread
	eventually(t, "end of all answers", func() (string, bool) {
		u.mu.Lock()
		defer u.mu.Unlock()
		return fmt.Sprintf("%d bytes of %d", u.bytes, len(u.all)), u.bytes == 0 && len(u.all) == 0
	})
}
