package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// headerTimeout is how long a client may take to send the header of a request.
	headerTimeout = 5 * time.Second
	// idleTimeout is how long a connection waits for its next request (kubelet: 90 s).
	idleTimeout = 90 * time.Second
	// maxHeaderBytes bounds a request's header: the URL of an exec holds its command.
	maxHeaderBytes = 256 << 10
	// stopGrace bounds the wait for handlers at the end.
	stopGrace = 5 * time.Second
)

// Serve serves h until ctx ends, and closes l. Then the contexts of all requests are cancelled and all connections
// closed, those that a handler has taken over too. Serve returns when the handlers have, or after 5 s with an error.
func Serve(ctx context.Context, l *Listener, h http.Handler, log *slog.Logger) error {
	var working sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			working.Add(1)
			defer working.Done()
			h.ServeHTTP(w, r)
		}),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if mine, ok := c.(*conn); ok {
				return context.WithValue(ctx, peerKey{}, mine.peer)
			}
			return ctx
		},
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	err := srv.Serve(l)
	srv.Close()
	l.Close()
	l.users.closeAll()
	done := make(chan struct{})
	go func() {
		working.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(stopGrace):
		return fmt.Errorf("socket %s: a request did not end within %s", l.path, stopGrace)
	}
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("socket %s: %w", l.path, err)
}
