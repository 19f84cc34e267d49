package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// BaseURL is the URL of the agent behind the socket; its host has no meaning.
	BaseURL = "http://kubelet"
	// dialTimeout bounds a connection attempt: the agent is on this machine.
	dialTimeout = 5 * time.Second
	// retryInterval is the pause while the agent's queue of connections is full.
	retryInterval = 5 * time.Millisecond
	// keptConnections and keptFor bound the connections that wait for a next request.
	keptConnections = 4
	keptFor         = 30 * time.Second
)

// Client is the client's side of a socket.
type Client struct {
	// HTTP sends requests to BaseURL. It has no timeout of its own.
	HTTP *http.Client
	// Path is the socket's path.
	Path string
}

// Dial returns a client of the agent that listens on the socket at path. It connects with the first request.
func Dial(path string) *Client {
	c := &Client{Path: path}
	c.HTTP = &http.Client{Transport: &http.Transport{
		DialContext: c.DialContext, DisableCompression: true, MaxIdleConns: keptConnections, IdleConnTimeout: keptFor,
	}}
	return c
}

// DialContext connects to the socket whatever the address, as client-go's rest.Config.Dial. The path may be longer than
// the kernel's limit of a socket's path.
func (c *Client) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	dir, err := os.OpenFile(filepath.Dir(c.Path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, c.explain(err)
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil {
		return nil, c.explain(err)
	}
	conn, err := c.dial(ctx, short(dir, filepath.Base(c.Path)))
	if err != nil {
		return nil, err
	}
	if err := c.trust(conn, ownerOf(info)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// trust refuses a server that is not root's, this user's, or the owner's of the socket's directory: in a directory that
// all may write, another user could have put his socket in the agent's place.
func (c *Client) trust(conn net.Conn, owner int) error {
	server, err := Identify(conn)
	if err != nil {
		return c.explain(err)
	}
	if uid := int(server.UID); !trusted(uid, os.Geteuid()) && uid != owner {
		return fmt.Errorf("%s is answered by %s and not by the agent of this machine: name its --root-dir or --socket",
			c.Path, server)
	}
	return nil
}

func (c *Client) dial(ctx context.Context, path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err == nil {
			return conn, nil
		}
		// A unix socket does not wait for a place in the queue of the server.
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, c.explain(err)
		}
		select {
		case <-ctx.Done():
			return nil, c.explain(err)
		case <-time.After(retryInterval):
		}
	}
}

// explain adds what to do next.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no agent listens on %s: start it with `journalet run`, or name its --root-dir or --socket: %w",
			c.Path, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s admits only the agent's user and its --api-socket-group: %w", c.Path, err)
	}
	return fmt.Errorf("connect to the agent at %s: %w", c.Path, err)
}
