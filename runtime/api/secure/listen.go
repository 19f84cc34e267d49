package secure

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits bound connections. Zero means the default.
type Limits struct {
	// Connections are at most so many at once; of them Strangers have had no permitted request yet. One stranger more
	// closes the connection of the one that came first.
	Connections, Strangers int
	// Header is how long a handshake may take, and then the header of a request.
	Header time.Duration
	// Idle is how long a connection waits for its next request.
	Idle time.Duration
}

const (
	defaultConnections = 1024
	defaultStrangers   = 256
	defaultHeader      = 10 * time.Second
	defaultIdle        = 90 * time.Second // kubelet

	// maxHeaderBytes bounds a request's header: the URL of an exec holds its command.
	maxHeaderBytes = 256 << 10
	// stallTimeout is how long one write may wait for a client that does not read (kubelet: its write timeout).
	stallTimeout = 4 * time.Hour
	// stopGrace bounds the wait for handlers at the end.
	stopGrace = 5 * time.Second
)

func (l *Limits) fill() {
	if l.Connections == 0 {
		l.Connections = defaultConnections
	}
	if l.Strangers == 0 {
		l.Strangers = defaultStrangers
	}
	if l.Header == 0 {
		l.Header = defaultHeader
	}
	if l.Idle == 0 {
		l.Idle = defaultIdle
	}
}

// tlsConfig returns the configuration of connections. HTTP/2 is not offered: a limit of connections bounds requests
// too, and what the paths upgrade needs HTTP/1.1.
func (s *Server) tlsConfig() *tls.Config {
	o := &s.opts
	c := &tls.Config{
		MinVersion: o.MinVersion, CipherSuites: o.CipherSuites, CurvePreferences: o.Curves,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return o.Certificate() },
	}
	if o.ClientCA != nil {
		// Verified for each request, with the authorities of that moment, and answered with 401.
		c.ClientAuth = tls.RequestClientCert
	}
	return c
}

// Serve serves requests of l with TLS until ctx ends, and closes l. Then all connections are closed, those that a
// handler has taken over too. Serve returns when the handlers have, or after 5 s with an error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	bounded := newListener(l, s.opts.Limits)
	return serve(ctx, bounded, tls.NewListener(bounded, s.tlsConfig()), s, s.opts.Limits, s.opts.Log)
}

// ServePlain serves h on l without TLS and without knowing its clients, within the limits of a Server: the port that
// readOnlyPort names. Only GET reaches h, with the paths that the kubelet serves there.
func ServePlain(ctx context.Context, l net.Listener, h http.Handler, limits Limits, log *slog.Logger) error {
	limits.fill()
	limits.Strangers = limits.Connections
	bounded := newListener(l, limits)
	return serve(ctx, bounded, bounded, readOnly(h), limits, log)
}

// readOnly refuses what changes something or shows more than statistics, health and the pods.
func readOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, path := range []string{"/pods", "/healthz", "/stats", "/metrics"} {
			if r.Method == http.MethodGet && within(r.URL.Path, path) {
				h.ServeHTTP(w, r)
				return
			}
		}
		http.NotFound(w, r)
	})
}

func serve(ctx context.Context, bounded *listener, l net.Listener, h http.Handler, limits Limits,
	log *slog.Logger,
) error {
	var working sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			working.Add(1)
			defer working.Done()
			h.ServeHTTP(w, r)
		}),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn()
			}
			return context.WithValue(ctx, connKey{}, c)
		},
		ReadHeaderTimeout: limits.Header, IdleTimeout: limits.Idle, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	err := srv.Serve(l)
	srv.Close()
	bounded.Close()
	bounded.closeAll()
	done := make(chan struct{})
	go func() {
		working.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(stopGrace):
		return fmt.Errorf("server on %s: a request did not end within %s", bounded.Addr(), stopGrace)
	}
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("server on %s: %w", bounded.Addr(), err)
}

// listener accepts connections within the limits.
type listener struct {
	net.Listener
	limits Limits

	mu    sync.Mutex
	conns map[*conn]struct{}
	// strangers are those without a permitted request, the first one first.
	strangers *list.List
}

func newListener(l net.Listener, limits Limits) *listener {
	return &listener{Listener: l, limits: limits, conns: map[*conn]struct{}{}, strangers: list.New()}
}

// Accept returns the next connection. Those beyond the limits are closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admit(raw); c != nil {
			return c, nil
		}
		raw.Close()
	}
}

// admit returns the connection with its place, nil if all are taken by clients that are known.
func (l *listener) admit(raw net.Conn) *conn {
	l.mu.Lock()
	var first *conn
	if l.strangers.Len() >= l.limits.Strangers || len(l.conns) >= l.limits.Connections {
		if front := l.strangers.Front(); front != nil {
			first = front.Value.(*conn)
			l.forget(first)
		}
	}
	var c *conn
	if len(l.conns) < l.limits.Connections {
		c = &conn{Conn: raw, listener: l}
		l.conns[c] = struct{}{}
		c.stranger = l.strangers.PushBack(c)
	}
	l.mu.Unlock()
	if first != nil {
		first.Conn.Close()
	}
	return c
}

// forget frees the place of a connection. l.mu is held.
func (l *listener) forget(c *conn) {
	delete(l.conns, c)
	if c.stranger != nil {
		l.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

// closeAll closes what is open, also what a handler has taken over.
func (l *listener) closeAll() {
	l.mu.Lock()
	all := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

type connKey struct{}

// admitted registers that a connection has had a permitted request.
func admitted(ctx context.Context) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.stranger != nil {
		c.listener.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

// conn is one client's connection.
type conn struct {
	net.Conn
	listener *listener
	stranger *list.Element // of listener.strangers; guarded by listener.mu

	mu       sync.Mutex
	deadline time.Time // of writes, as the server has set it
}

// Write writes, and fails once the client has not read for stallTimeout.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	at := time.Now().Add(stallTimeout)
	if !c.deadline.IsZero() && c.deadline.Before(at) {
		at = c.deadline
	}
	err := c.Conn.SetWriteDeadline(at)
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline bounds writes beyond stallTimeout.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets the deadlines of reads and writes.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetWriteDeadline(t); err != nil {
		return err
	}
	return c.SetReadDeadline(t)
}

// Close closes the connection and frees its place.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.forget(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// NetConn returns the connection itself, as that of tls.Conn.
func (c *conn) NetConn() net.Conn { return c.Conn }
