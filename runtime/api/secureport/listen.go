package secureport

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/journalet/journalet/runtime/api/door"
)

// Limits bound connections. Zero means the default.
type Limits struct {
	// Connections are at most so many at once; of them Strangers have had no permitted request yet. One stranger more
	// closes the oldest stranger's connection of the address that has most of them.
	Connections, Strangers int
	// PerUser bounds the connections of one user: a client that may send requests leaves places for the API server. The
	// request that would take one more is answered with 429.
	PerUser int
	// Header is how long a handshake may take, and then the header of a request.
	Header time.Duration
	// Idle is how long a connection waits for its next request.
	Idle time.Duration
}

const (
	defaultConnections = 1024
	defaultStrangers   = 256
	defaultPerUser     = 512
	defaultHeader      = 10 * time.Second
	defaultIdle        = 90 * time.Second // kubelet
)

func (l *Limits) fill() {
	if l.Connections == 0 {
		l.Connections = defaultConnections
	}
	if l.Strangers == 0 {
		l.Strangers = defaultStrangers
	}
	if l.PerUser == 0 {
		l.PerUser = defaultPerUser
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

// Serve serves requests of l with TLS until ctx ends, as door.HTTP does.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	bounded := newListener(l, s.opts.Limits)
	var h http.Handler = s
	if s.opts.Observe != nil {
		h = s.opts.Observe(s)
	}
	return serveOn(ctx, bounded, tls.NewListener(bounded, s.tlsConfig()), h, s.opts.Limits, s.opts.Log)
}

// ServePlain serves h on l without TLS and without knowing its clients, within the limits of a Server: the port that
// readOnlyPort names. Only GET reaches h, with the paths that the kubelet serves there.
func ServePlain(ctx context.Context, l net.Listener, h http.Handler, limits Limits, log *slog.Logger) error {
	limits.fill()
	limits.Strangers = limits.Connections
	bounded := newListener(l, limits)
	return serveOn(ctx, bounded, bounded, readOnly(h), limits, log)
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

func serveOn(ctx context.Context, bounded *listener, l net.Listener, h http.Handler, limits Limits,
	log *slog.Logger,
) error {
	return door.HTTP(ctx, l, door.Options{
		Name: "server on " + bounded.Addr().String(), Handler: h, Header: limits.Header, Idle: limits.Idle,
		Conns: &bounded.conns, Log: log,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn()
			}
			return context.WithValue(ctx, connKey{}, c)
		},
	})
}

// listener accepts connections within the limits.
type listener struct {
	net.Listener
	limits Limits
	conns  door.Conns

	mu   sync.Mutex
	open int
	// strangers are those without a permitted request, the first one first. byAddress counts them, byUser the others.
	strangers *list.List
	byAddress map[string]int
	byUser    map[string]int
}

func newListener(l net.Listener, limits Limits) *listener {
	return &listener{
		Listener: l, limits: limits, strangers: list.New(), byAddress: map[string]int{}, byUser: map[string]int{},
	}
}

// conn is one client's connection.
type conn struct {
	*door.Conn
	listener *listener
	address  string

	// Guarded by listener.mu. A connection with a place is a stranger, or of a user.
	placed   bool
	stranger *list.Element
	user     string
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
	if l.strangers.Len() >= l.limits.Strangers || l.open >= l.limits.Connections {
		if first = l.mostCommon(); first != nil {
			l.forget(first)
		}
	}
	var c *conn
	if l.open < l.limits.Connections {
		l.open++
		c = &conn{listener: l, placed: true, address: addressOf(raw.RemoteAddr().String())}
		c.Conn = l.conns.Add(raw, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.forget(c)
		})
		c.stranger = l.strangers.PushBack(c)
		l.byAddress[c.address]++
	}
	l.mu.Unlock()
	if first != nil {
		first.Close()
	}
	return c
}

// mostCommon returns the first stranger of the address that has most of them, nil without strangers: a flood from one
// address closes its own connections. l.mu is held.
func (l *listener) mostCommon() (found *conn) {
	for e := l.strangers.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); found == nil || l.byAddress[c.address] > l.byAddress[found.address] {
			found = c
		}
	}
	return found
}

// forget frees the place of a connection. l.mu is held.
func (l *listener) forget(c *conn) {
	if !c.placed {
		return
	}
	c.placed = false
	l.open--
	l.unname(c)
}

// unname takes a connection from the strangers, or from its user. l.mu is held.
func (l *listener) unname(c *conn) {
	if c.stranger != nil {
		l.strangers.Remove(c.stranger)
		c.stranger = nil
		if l.byAddress[c.address]--; l.byAddress[c.address] == 0 {
			delete(l.byAddress, c.address)
		}
	}
	if c.user != "" {
		if l.byUser[c.user]--; l.byUser[c.user] == 0 {
			delete(l.byUser, c.user)
		}
		c.user = ""
	}
}

type connKey struct{}

// admitted registers that a connection has a permitted request of a user. It reports false if the user has as many
// connections as one may have: then the request is not to be served.
func admitted(ctx context.Context, user string) bool {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return true
	}
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.placed || c.user == user {
		return true
	}
	if l.byUser[user] >= l.limits.PerUser {
		return false
	}
	l.unname(c)
	c.user = user
	l.byUser[user]++
	return true
}
