package main

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestProxyPairsConnectionsAndEndsThemTogether(t *testing.T) {
	outer, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must.OK(t, err)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- proxy(ctx, outer, inner) }()
	dial := func(l net.Listener) net.Conn {
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	server, client := dial(inner), dial(outer) // the tests connect before anybody wants it
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		_, err := way[0].Write([]byte("x"))
		must.OK(t, err)
		b := make([]byte, 1)
		if _, err := io.ReadFull(way[1], b); err != nil || b[0] != 'x' {
			t.Errorf("read %q, %v", b, err)
		}
	}
	must.OK(t, server.Close())
	if n, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the other end is closed, and the client reads %d bytes, %v", n, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the proxy ends with %v", err)
	}
}
