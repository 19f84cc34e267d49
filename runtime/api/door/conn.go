package door

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// stallTimeout is how long one write may wait for a client that does not read. A person who has stopped the output of a
// terminal is one such client.
const stallTimeout = 4 * time.Hour // kubelet: its write timeout, and the runtime's idle timeout of a stream

// Conns are the open connections of a door. The zero value has none.
type Conns struct {
	mu   sync.Mutex
	open map[*Conn]struct{}
}

// Add returns a connection whose writes are bounded. closed is called once, when it is closed.
func (s *Conns) Add(raw net.Conn, closed func()) *Conn {
	c := &Conn{Conn: raw, set: s, closed: closed}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*Conn]struct{}{}
	}
	s.open[c] = struct{}{}
	return c
}

// CloseAll closes what is open, also what a handler has taken over.
func (s *Conns) CloseAll() {
	s.mu.Lock()
	all := make([]*Conn, 0, len(s.open))
	for c := range s.open {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// Conn is one client's connection.
type Conn struct {
	net.Conn
	set    *Conns
	closed func()

	mu       sync.Mutex
	deadline time.Time // of writes, as the server has set it
	late     bool      // a write has failed at its deadline
}

// Write writes, and fails once the client has not read for 4 h. After such a failure all writes fail at once: what the
// client gets is cut, and the end of TLS would keep its memory, since net/http waits 5 s for it within the handler.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.late {
		c.mu.Unlock()
		return 0, os.ErrDeadlineExceeded
	}
	at := time.Now().Add(stallTimeout)
	if !c.deadline.IsZero() && c.deadline.Before(at) {
		at = c.deadline
	}
	err := c.Conn.SetWriteDeadline(at)
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.mu.Lock()
		c.late = true
		c.mu.Unlock()
	}
	return n, err
}

// SetWriteDeadline bounds writes beyond the 4 h.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets the deadlines of reads and writes.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetWriteDeadline(t); err != nil {
		return err
	}
	return c.SetReadDeadline(t)
}

// Close closes the connection. A second Close does nothing but that.
func (c *Conn) Close() error {
	c.set.mu.Lock()
	_, open := c.set.open[c]
	delete(c.set.open, c)
	c.set.mu.Unlock()
	if open {
		c.closed()
	}
	return c.Conn.Close()
}

// NetConn returns the connection itself, as NetConn of tls.Conn does.
func (c *Conn) NetConn() net.Conn { return c.Conn }
