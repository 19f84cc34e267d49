package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// Bounds of the transport. maxMessageBytes is the kubelet's own limit for CRI messages (16 MiB).
const (
	maxMessageBytes      = 16 << 20
	maxConcurrentStreams = 1_000
	bufconnBytes         = 256 << 10
	// A client in process finds a restarted runtime soon, not after gRPC's default second.
	redialBase = 5 * time.Millisecond
	redialMax  = 100 * time.Millisecond
)

// ErrClosed is returned by Serve and Dial after Close.
var ErrClosed = errors.New("simulated runtime is closed; create another with sim.New")

// serverState is the listening half: it outlives a Crash, the gRPC server in it does not.
type serverState struct {
	grpc      *grpc.Server
	conns     *connListener
	served    chan struct{} // closed when the gRPC server's accept loop has ended
	listeners map[net.Listener]struct{}
	inProcess *bufconn.Listener
	wg        sync.WaitGroup // the in-process accept loop
	down      bool
	closed    bool
}

// Serve accepts CRI clients on l until the context ends (nil) or l fails. It closes l. While the runtime is crashed,
// clients are accepted and cut off at once, so that the same address works again after Restart.
func (r *Runtime) Serve(ctx context.Context, l net.Listener) error {
	r.mu.Lock()
	if r.server.closed {
		r.mu.Unlock()
		return errors.Join(ErrClosed, l.Close())
	}
	if r.server.listeners == nil {
		r.server.listeners = map[net.Listener]struct{}{}
	}
	r.server.listeners[l] = struct{}{}
	r.mu.Unlock()
	defer func() {
		_ = l.Close()
		r.mu.Lock()
		delete(r.server.listeners, l)
		r.mu.Unlock()
	}()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || r.isClosed() {
				return nil
			}
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		r.hand(conn)
	}
}

// hand passes a connection to the gRPC server of the moment, or drops it.
func (r *Runtime) hand(conn net.Conn) {
	r.mu.Lock()
	conns := r.server.conns
	if r.server.down || r.server.closed {
		conns = nil
	}
	r.mu.Unlock()
	if conns == nil {
		_ = conn.Close()
		return
	}
	select {
	case conns.ch <- conn:
	case <-conns.done:
		_ = conn.Close()
	}
}

func (r *Runtime) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server.closed
}

// Dial connects to the runtime in process, without a socket. The caller closes the connection. It survives Crash and
// Restart as a connection to a real socket does: calls fail with Unavailable in between.
func (r *Runtime) Dial() (*grpc.ClientConn, error) {
	r.mu.Lock()
	if r.server.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	if r.server.inProcess == nil {
		l := bufconn.Listen(bufconnBytes)
		r.server.inProcess = l
		r.server.wg.Go(func() { _ = r.Serve(context.Background(), l) })
	}
	l := r.server.inProcess
	r.mu.Unlock()
	retry := backoff.DefaultConfig
	retry.BaseDelay, retry.MaxDelay = redialBase, redialMax
	return grpc.NewClient("passthrough:///"+RuntimeName,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
	)
}

// startServer begins a generation of the gRPC server. r.mu is held, or r is new.
func (r *Runtime) startServer() {
	s := grpc.NewServer(
		grpc.UnaryInterceptor(r.interceptUnary),
		grpc.StreamInterceptor(r.interceptStream),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.WaitForHandlers(true),
	)
	r.register(s)
	conns := &connListener{ch: make(chan net.Conn), done: make(chan struct{})}
	served := make(chan struct{})
	r.server.grpc, r.server.conns, r.server.served, r.server.down = s, conns, served, false
	go func() {
		defer close(served)
		_ = s.Serve(conns)
	}()
}

// Crash kills the runtime's API: every connection and session dies, calls in flight end without a response (their
// handlers have returned when Crash does), held events are lost. Containers keep running, as they do under their shims.
// A Fault's Match must not call it. A second Crash does nothing.
func (r *Runtime) Crash() {
	r.mu.Lock()
	if r.server.down || r.server.closed {
		r.mu.Unlock()
		return
	}
	r.server.down = true
	s, served, sessions := r.server.grpc, r.server.served, r.streams
	r.streams = nil
	r.events.dropAll()
	r.mu.Unlock()
	sessions.close()
	s.Stop()
	<-served
}

// Restart brings the API back after Crash, with all state as it has become meanwhile. Without a Crash before, it does
// Crash first.
func (r *Runtime) Restart() {
	r.Crash()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server.down && !r.server.closed {
		r.startServer()
	}
}

// Close ends everything: connections, listeners, pending timers. The runtime can't be used afterwards.
func (r *Runtime) Close() {
	r.Crash()
	r.mu.Lock()
	r.server.closed = true
	for l := range r.server.listeners {
		_ = l.Close()
	}
	for _, c := range r.state.containers {
		c.haltProcess()
	}
	r.mu.Unlock()
	r.server.wg.Wait()
}

// connListener feeds a gRPC server with connections accepted elsewhere.
type connListener struct {
	ch   chan net.Conn
	once sync.Once
	done chan struct{}
}

func (l *connListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ch:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *connListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *connListener) Addr() net.Addr { return simAddr{} }

type simAddr struct{}

func (simAddr) Network() string { return "sim" }
func (simAddr) String() string  { return RuntimeName }
