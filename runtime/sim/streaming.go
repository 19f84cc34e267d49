package sim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
)

// headerTimeout bounds the headers of a request for a session.
const headerTimeout = 10 * time.Second

// streams serves sessions over HTTP, as runtimes do: at URLs that work once. The port is one of the loopback interface,
// and opens with the first session.
type streams struct {
	streaming.Server
	http *http.Server
	done chan struct{}

	mu    sync.Mutex
	conns map[*streamConn]struct{} // net/http does not close connections that a session has taken over
}

// streaming returns the server of sessions. r.mu is held.
func (r *Runtime) streaming() (*streams, error) {
	if r.streams != nil {
		return r.streams, nil
	}
	if r.server.down {
		return nil, status.Error(codes.Unavailable, "the simulated runtime has crashed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "no port for sessions: %v", err)
	}
	config := streaming.DefaultConfig
	config.BaseURL = &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/"}
	s := &streams{done: make(chan struct{}), conns: map[*streamConn]struct{}{}}
	if s.Server, err = streaming.NewServer(config, sessions{r}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s.http = &http.Server{
		Handler: s.Server, ReadHeaderTimeout: headerTimeout,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			mine, ok := c.(*streamConn)
			if !ok {
				return ctx
			}
			return mine.ctx
		},
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(&streamListener{Listener: l, streams: s}) // it ends with close
	}()
	r.streams = s
	return s, nil
}

// close ends all sessions and frees the port.
func (s *streams) close() {
	if s == nil {
		return
	}
	_ = s.http.Close() // of a listener that nobody else closes
	<-s.done
	s.mu.Lock()
	all := s.conns
	s.conns = nil
	s.mu.Unlock()
	for c := range all {
		_ = c.Close()
	}
}

type streamListener struct {
	net.Listener
	streams *streams
}

// Accept returns the next connection, with a context that ends when the connection does.
func (l *streamListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &streamConn{Conn: conn, streams: l.streams}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	l.streams.mu.Lock()
	defer l.streams.mu.Unlock()
	l.streams.conns[c] = struct{}{}
	return c, nil
}

// streamConn is a connection of a session. The session ends with it.
type streamConn struct {
	net.Conn
	streams *streams
	ctx     context.Context
	cancel  context.CancelFunc
}

// Read reads what the client sends. A deadline is no end: net/http sets one to take its own reader off.
func (c *streamConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.cancel()
	}
	return n, err
}

// Close closes the connection and ends the session.
func (c *streamConn) Close() error {
	c.cancel()
	c.streams.mu.Lock()
	delete(c.streams.conns, c)
	c.streams.mu.Unlock()
	return c.Conn.Close()
}

// Exec prepares a session of a command in a running container.
func (s *runtimeService) Exec(_ context.Context, req *cri.ExecRequest) (*cri.ExecResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if _, err := s.r.runningContainer(req.GetContainerId()); err != nil {
		return nil, err
	}
	to, err := s.r.streaming()
	if err != nil {
		return nil, err
	}
	return to.GetExec(req)
}

// Attach prepares a session with the process of a running container.
func (s *runtimeService) Attach(_ context.Context, req *cri.AttachRequest) (*cri.AttachResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if _, err := s.r.runningContainer(req.GetContainerId()); err != nil {
		return nil, err
	}
	to, err := s.r.streaming()
	if err != nil {
		return nil, err
	}
	return to.GetAttach(req)
}

// PortForward prepares a session with ports of a sandbox that is ready.
func (s *runtimeService) PortForward(
	_ context.Context, req *cri.PortForwardRequest,
) (*cri.PortForwardResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if _, err := s.r.readySandbox(req.GetPodSandboxId()); err != nil {
		return nil, err
	}
	to, err := s.r.streaming()
	if err != nil {
		return nil, err
	}
	return to.GetPortForward(req)
}

// runningContainer finds a running container. r.mu is held.
func (r *Runtime) runningContainer(id string) (*container, error) {
	c := r.findContainer(id)
	switch {
	case c == nil:
		return nil, notFound("container", id)
	case c.state != cri.ContainerState_CONTAINER_RUNNING:
		return nil, status.Errorf(codes.Unknown, "container is in %s state", c.state)
	}
	return c, nil
}

// readySandbox finds a sandbox that is ready. r.mu is held.
func (r *Runtime) readySandbox(id string) (*sandbox, error) {
	sb := r.findSandbox(id)
	switch {
	case sb == nil:
		return nil, notFound("sandbox", id)
	case !sb.ready:
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", sb.id)
	}
	return sb, nil
}

// copyUntil copies until the source ends or ctx does. What is read afterwards is lost.
func copyUntil(ctx context.Context, to io.Writer, from io.Reader) error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(to, from)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
