package stream

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// upgradeTimeout is how long the agent may take to begin a session: it asks the runtime for it first (kubelet:
// runtimeRequestTimeout of 2 min).
const upgradeTimeout = 2 * time.Minute

// maxUpgradeBytes bounds what is read until a session has begun: the headers, and the text of a refusal.
const maxUpgradeBytes = 2 * maxHeaderBytes

var errUpgradeTooLong = errors.New("the agent's response is longer than that of any agent")

// conn is a connection to the agent. Until it is established it has a deadline and a bound, and ends with its context;
// neither of the libraries that read from it has them.
type conn struct {
	net.Conn
	ctx         context.Context
	left        int // bytes, until it is established
	established atomic.Bool
	stop        func() bool
}

// guard returns a connection that the agent has a time to establish.
func guard(ctx context.Context, raw net.Conn, timeout time.Duration) (*conn, error) {
	if err := raw.SetDeadline(time.Now().Add(timeout)); err != nil {
		raw.Close()
		return nil, err
	}
	c := &conn{Conn: raw, ctx: ctx, left: maxUpgradeBytes}
	c.stop = context.AfterFunc(ctx, func() { raw.Close() })
	return c, nil
}

func (c *conn) Read(p []byte) (int, error) {
	if c.established.Load() {
		return c.Conn.Read(p)
	}
	if c.left == 0 {
		return 0, errUpgradeTooLong
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// why returns the error of a connection that was not established: that it sent too much, or the given one.
func (c *conn) why(err error) error {
	if err != nil && c != nil && c.left == 0 {
		return errUpgradeTooLong
	}
	return err
}

// SetDeadline leaves the deadline of a connection that is not established as it is.
func (c *conn) SetDeadline(t time.Time) error {
	if !c.established.Load() {
		return nil
	}
	return c.Conn.SetDeadline(t)
}

// establish ends the bound and the deadline. The context stays: it closes the connection.
func (c *conn) establish() error {
	c.established.Store(true)
	if err := c.ctx.Err(); err != nil {
		return err
	}
	return c.Conn.SetDeadline(time.Time{})
}

func (c *conn) Close() error {
	c.stop()
	return c.Conn.Close()
}
