package kubelet

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// writer is the response of a session. The connection that a stream takes over ends with the session, and the session
// with the connection.
type writer struct {
	http.ResponseWriter
	session *session
}

// Unwrap returns the writer for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends what was written.
func (w *writer) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Hijack takes the connection over. What the client has sent already is read first.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early := []byte(nil)
	if n := rw.Reader.Buffered(); n > 0 {
		peeked, _ := rw.Reader.Peek(n)
		early = append(early, peeked...)
	}
	c := &taken{Conn: raw, session: w.session, early: early, outcome: w.session.outcome}
	c.watch()
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

// taken is the connection of a session.
type taken struct {
	net.Conn
	session *session
	early   []byte // sent before the connection was taken over
	outcome *outcome
	idle    *time.Timer
	once    sync.Once
}

// watch closes the connection when the session ends, when it is idle for too long, and when the client leaves while
// nobody reads what it has sent: its bytes wait for a command that does not read them.
func (c *taken) watch() {
	x, limits := c.session, c.session.s.limits
	c.idle = time.AfterFunc(limits.Idle, func() { x.fail(failedIdle); c.left() })
	context.AfterFunc(x.ctx, func() { c.Close() })
	client := rawConn(c.Conn)
	if client == nil {
		return
	}
	go func() {
		every := time.NewTicker(limits.Hangup)
		defer every.Stop()
		for {
			select {
			case <-x.ctx.Done():
				return
			case <-every.C:
				if gone(client) {
					c.left()
					return
				}
			}
		}
	}()
}

// rawConn returns the socket of a connection, nil if it has none.
func rawConn(c net.Conn) syscall.RawConn {
	for {
		if s, ok := c.(syscall.Conn); ok {
			raw, err := s.SyscallConn()
			if err != nil {
				return nil
			}
			return raw
		}
		outer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = outer.NetConn()
	}
}

// gone reports whether the other side has closed a connection, although bytes of it are unread: a reader that waits for
// the runtime to take what it has would not see it.
func gone(raw syscall.RawConn) bool {
	is := false
	err := raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		is = err == nil && n > 0
	})
	return is || err != nil
}

// left ends the session of a client that has left.
func (c *taken) left() {
	if c.session.ctx.Err() == nil {
		c.session.aborted.Store(true)
		c.session.cancel()
	}
}

// Read reads what the client sends. Its end ends the session.
func (c *taken) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		c.outcome.sent(p[:n])
		return n, nil
	}
	n, err := c.Conn.Read(p)
	c.outcome.sent(p[:n])
	c.touch(n, err)
	return n, err
}

// Write writes to the client.
func (c *taken) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.outcome.received(p[:n])
	c.touch(n, err)
	return n, err
}

func (c *taken) touch(n int, err error) {
	if n > 0 {
		c.idle.Reset(c.session.s.limits.Idle)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		c.left()
	}
}

// Close closes the connection and ends the session.
func (c *taken) Close() error {
	var err error
	c.once.Do(func() {
		c.idle.Stop()
		err = c.Conn.Close()
		c.session.cancel()
	})
	return err
}
