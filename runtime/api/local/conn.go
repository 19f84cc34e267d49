package local

import (
	"net"
	"os"
	"sync"
	"time"
)

const (
	// maxConnections bounds the open connections: sessions, requests, and those kept for the next request.
	maxConnections = 1024
	// maxPerUser bounds those of one user other than the agent's own.
	maxPerUser = 256
	// maxOthers bounds those of all other users together: the agent's own always finds a place.
	maxOthers = 768
	// stallTimeout is how long one write may wait for a client that does not read. A person who has stopped the output
	// of a terminal is one such client.
	stallTimeout = 4 * time.Hour // kubelet: its write timeout, and the runtime's idle timeout of a stream
)

// users counts the open connections.
type users struct {
	mu     sync.Mutex
	byID   map[uint32]int
	others int
	conns  map[*conn]struct{}
}

// admit returns the connection with its peer, nil beyond the limits.
func (u *users) admit(raw net.Conn) *conn {
	peer, err := peerOf(raw)
	if err != nil {
		return nil
	}
	other := int(peer.UID) != os.Geteuid() && peer.UID != 0
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.conns) >= maxConnections || other && (u.others >= maxOthers || u.byID[peer.UID] >= maxPerUser) {
		return nil
	}
	c := &conn{Conn: raw, peer: peer, users: u, other: other}
	u.conns[c] = struct{}{}
	u.byID[peer.UID]++
	if other {
		u.others++
	}
	return c
}

func (u *users) forget(c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, open := u.conns[c]; !open {
		return
	}
	delete(u.conns, c)
	if u.byID[c.peer.UID]--; u.byID[c.peer.UID] == 0 {
		delete(u.byID, c.peer.UID)
	}
	if c.other {
		u.others--
	}
}

// closeAll closes what is open, also what a handler has taken over.
func (u *users) closeAll() {
	u.mu.Lock()
	all := make([]*conn, 0, len(u.conns))
	for c := range u.conns {
		all = append(all, c)
	}
	u.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// conn is one client's connection.
type conn struct {
	net.Conn
	peer  Peer
	users *users
	other bool

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
	c.users.forget(c)
	return c.Conn.Close()
}

// NetConn returns the connection itself, as that of tls.Conn.
func (c *conn) NetConn() net.Conn { return c.Conn }
