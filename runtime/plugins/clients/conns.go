package clients

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
	open map[*Conn]struct{}
	turn uint64
}

// Conn is the connection of a client. Its fields belong to conns.mu.
type Conn struct {
	net.Conn
	set *conns
	// requests are under way; last is the turn when the last request ended, or the connection began.
	requests int
	last     uint64
}

func newConns() *conns { return &conns{open: map[*Conn]struct{}{}} }

// add adds a connection. Beyond MaxConnections it closes the connection that has been without a request for longest;
// nil: all connections have requests.
func (s *conns) add(raw net.Conn) *Conn {
	s.mu.Lock()
	c := &Conn{Conn: raw, set: s, last: s.next()}
	var idle *Conn
	if len(s.open) >= MaxConnections {
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
func (s *conns) use(c *Conn) (end func()) {
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
func (c *Conn) Close() error {
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
	conn *Conn
}

// AuthType returns how a client is known: by the socket that it may connect to.
func (peerInfo) AuthType() string { return "socket" }

// ServerHandshake returns the connection as it is, and what requests know of it.
func (known) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := raw.(*Conn) //nolint:forcetypeassert // the listener returns no others
	return c, peerInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, c}, nil
}

// Clone returns a copy.
func (k known) Clone() credentials.TransportCredentials { return known{k.TransportCredentials.Clone()} }

// ConnOf returns the connection of a request of a Server.
func ConnOf(ctx context.Context) *Conn {
	p, _ := peer.FromContext(ctx)
	return p.AuthInfo.(peerInfo).conn //nolint:forcetypeassert // ServerHandshake sets it
}
