package local

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/journalet/journalet/runtime/api/door"
)

const (
	// headerTimeout is how long a client may take to send the header of a request.
	headerTimeout = 5 * time.Second
	// idleTimeout is how long a connection waits for its next request (kubelet: 90 s).
	idleTimeout = 90 * time.Second
)

// Serve serves h until ctx ends, as door.HTTP does. PeerOf returns who sends a request.
func Serve(ctx context.Context, l *Listener, h http.Handler, log *slog.Logger) error {
	return door.HTTP(ctx, l, door.Options{
		Name: "socket " + l.path, Handler: h, Header: headerTimeout, Idle: idleTimeout, Conns: &l.users.conns, Log: log,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if mine, ok := c.(*conn); ok {
				return context.WithValue(ctx, peerKey{}, mine.peer)
			}
			return ctx
		},
	})
}
