package podsapi

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// conns are the connections of clients.
type conns struct {
	unread unread

	mu   sync.Mutex
	open map[*conn]struct{}
	turn uint64
}

// conn is a connection. Its fields belong to conns.mu.
type conn struct {
	net.Conn
	set *conns
	// requests are under way; last is the turn when the last request ended, or the connection began.
	requests int
	last     uint64
}

func newConns() *conns { return &conns{open: map[*conn]struct{}{}} }

// add adds a connection. Beyond maxConnections it closes the connection that has been without a request for longest;
// nil: all connections have requests.
func (s *conns) add(raw net.Conn) *conn {
	s.mu.Lock()
	c := &conn{Conn: raw, set: s, last: s.next()}
	var idle *conn
	if len(s.open) >= maxConnections {
		for other := range s.open {
			if other.requests == 0 && (idle == nil || other.last < idle.last) {
				idle = other
			}
		}
		if idle == nil {
			s.mu.Unlock()
			return nil
		}
		delete(s.open, idle)
	}
	s.open[c] = struct{}{}
	s.mu.Unlock()
	if idle != nil {
		idle.Close()
	}
	return c
}

// next returns the next turn; s.mu is held.
func (s *conns) next() uint64 {
	s.turn++
	return s.turn
}

// use begins a request of a connection; end ends it.
func (s *conns) use(c *conn) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.requests++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.requests--
		c.last = s.next()
	}
}

// Close closes the connection and forgets what its client has not read.
func (c *conn) Close() error {
	c.set.mu.Lock()
	delete(c.set.open, c)
	c.set.mu.Unlock()
	err := c.Conn.Close()
	c.set.unread.forget(c)
	return err
}

// listener accepts connections within the bound.
type listener struct {
	net.Listener
	conns *conns
}

// Accept returns the next connection. One that has no place is closed.
func (l listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.conns.add(raw); c != nil {
			return c, nil
		}
		raw.Close()
	}
}

// known are credentials that require nothing and give requests their connection. Who may connect is the socket's mode.
type known struct {
	credentials.TransportCredentials
}

// peerInfo is what a request knows of its client.
type peerInfo struct {
	credentials.CommonAuthInfo
	conn *conn
}

// AuthType returns how a client is known: by the socket that it may connect to.
func (peerInfo) AuthType() string { return "socket" }

// ServerHandshake returns the connection as it is, and what requests know of it.
func (known) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := raw.(*conn) //nolint:forcetypeassert // the listener returns no others
	return c, peerInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, c}, nil
}

// Clone returns a copy.
func (k known) Clone() credentials.TransportCredentials { return known{k.TransportCredentials.Clone()} }

// connOf returns the connection of a request.
func connOf(ctx context.Context) *conn {
	p, _ := peer.FromContext(ctx)
	return p.AuthInfo.(peerInfo).conn //nolint:forcetypeassert // ServerHandshake sets it
}
